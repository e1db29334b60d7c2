#include "serve/documents.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "inspect/ancestors.h"
#include "inspect/files.h"
#include "inspect/health.h"
#include "inspect/json.h"
#include "inspect/proc.h"
#include "inspect/world.h"
#include "serve/list_document.h"
#include "serve/metrics.h"
#include "serve/view.h"

namespace holdfast::serve {

namespace {

using inspect::Json;

constexpr double kDoctorLooksAtProcesses = 1;

Json head(const View& view) {
  Json json;
  inspect::add_text(json, "directory", view.directory);
  json["time"] = view.time;
  return json;
}

std::string text(const Json& json) { return inspect::to_text(json, inspect::Layout::line) + "\n"; }

void add_dictionaries(View& view, Documents& documents) {
  Json start = head(view);
  start["note"] = view.is_used ? Json() : Json(inspect::kUnusedYet);
  ListDocument all(start, "dictionaries");
  std::size_t size = 0;  // the size of the entries of one dictionary
  for (const DictionaryView& one : view.dictionaries) {
    const auto users = inspect::users_of(one.dictionary, view.openers, view.processes);
    const Json json = inspect::to_json(one.dictionary, users);
    all.add(json);
    std::string single = text(json);
    size += single.size();
    if (size <= kDocumentMax)
      documents["dictionary/" + one.dictionary.name] = std::move(single);
    else
      documents[kTooLarge] = "";
  }
  documents["dictionaries"] = std::move(all).text();
}

void add_locks(View& view, Documents& documents) {
  Json start = head(view);
  start["count"] = view.lock_count;
  ListDocument locks(start, "locks");
  const inspect::Ancestors ancestors = inspect::ancestors_of_waiters(view.locks, view.processes);
  for (inspect::Lock& lock : view.locks) {
    const std::size_t length = lock.key.size();
    lock.key = beginning_of(lock.key);
    Json json = inspect::to_json(lock, view.processes, ancestors);
    if (length > lock.key.size()) json["key_length"] = length;
    locks.add(json);
  }
  documents["locks"] = std::move(locks).text();
}

Json to_json(const holdfast_histogram& histogram) {
  constexpr double kMost = 0.99;
  Json json{{"count", histogram.count},
            {"sum", histogram.sum},
            {"max", histogram.max},
            {"median", holdfast_quantile(&histogram, 0.5)},
            {"p99", holdfast_quantile(&histogram, kMost)}};
  json["buckets"] = Json::array();
  for (std::uint32_t i = 0; i < HOLDFAST_BUCKETS; ++i) {
    if (histogram.buckets[i] == 0) continue;
    const double end = holdfast_bucket_end(i);
    json["buckets"].push_back({{"le", std::isinf(end) ? Json() : Json(end)}, {"count", histogram.buckets[i]}});
  }
  return json;
}

void add_histograms(const View& view, Documents& documents) {
  ListDocument all(head(view), "dictionaries");
  for (const DictionaryView& one : view.dictionaries) {
    Json dictionary;
    inspect::add_text(dictionary, "name", one.dictionary.name);
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      dictionary[kKindNames[kind]] = {{"waited", to_json(one.waited[kind])}, {"held", to_json(one.held[kind])}};
    all.add(dictionary);
  }
  documents["histograms"] = std::move(all).text();
}

void add_contention(const View& view, Documents& documents) {
  ListDocument keys(head(view), "keys");
  for (const DictionaryView& one : view.dictionaries) {
    for (const holdfast_contended& key : one.contended) {
      Json to;
      inspect::add_text(to, "dictionary", one.dictionary.name);
      inspect::add_text(to, "key", key_of(key));
      to["key_length"] = key.key_length;
      to["kind"] = kKindNames[key.kind % kKinds];
      to["waits"] = key.waits;
      to["timeouts"] = key.timeouts;
      to["refused"] = key.refused;
      to["wait_time"] = key.wait_time;
      keys.add(to);
    }
  }
  documents["contention"] = std::move(keys).text();
}

/// Adds the metrics. If they are too large, omits the histograms. If they are still too large, omits all metrics,
/// because incomplete metrics would be wrong.
void add_metrics(View& view, std::uint32_t keys, Documents& documents) {
  constexpr std::pair<const char*, MetricsFormat> kFormats[] = {{"metrics", MetricsFormat::prometheus},
                                                                {"openmetrics", MetricsFormat::openmetrics}};
  for (const auto& [name, format] : kFormats) {
    std::string text = metrics_of(view, keys, format);
    if (text.size() > kDocumentMax) {
      for (DictionaryView& one : view.dictionaries) one.waited = one.held = {};
      text = metrics_of(view, keys, format);
    }
    if (text.size() <= kDocumentMax)
      documents[name] = std::move(text);
    else
      documents[kTooLarge] = "";
  }
}

/// Adds the number of dictionaries that cannot be opened, so that there can be an alert even if nothing else can be
/// read.
void add_lost_dictionaries(std::uint32_t keys, Documents& documents) {
  View view;
  view.unreadable = inspect::dictionaries_without_table(inspect::directory_to_be()).size();
  if (view.unreadable != 0) add_metrics(view, keys, documents);
}

}  // namespace

double unix_time() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::round(std::chrono::duration<double>(since).count() * 1e3) / 1e3;
}

Documents look_at_world(std::uint32_t keys) {
  Documents documents;
  auto view = gather_view();
  if (!view) {
    documents["error"] = view.status().message;
    add_lost_dictionaries(keys, documents);
    return documents;
  }
  view->time = unix_time();
  add_dictionaries(*view, documents);
  add_locks(*view, documents);
  add_histograms(*view, documents);
  add_contention(*view, documents);
  add_metrics(*view, keys, documents);  // last, because it may drop data that other documents need
  return documents;
}

Documents ask_doctor() {
  inspect::Findings obstacles;
  inspect::WorldSnapshot snapshot = inspect::gather(
      [](const std::string& directory) {
        return inspect::Openers::read(directory, inspect::all_pids(), kDoctorLooksAtProcesses);
      },
      false, obstacles);
  Json json = inspect::to_json(snapshot, inspect::check_health(snapshot, {}, obstacles));
  json["time"] = unix_time();
  Json findings = std::move(json["findings"]);
  json.erase("findings");
  ListDocument document(json, "findings");
  for (const Json& finding : findings) document.add(finding);
  return {{"doctor", std::move(document).text()}};
}

}  // namespace holdfast::serve
