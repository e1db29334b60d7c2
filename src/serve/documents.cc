#include "serve/documents.h"

#include <chrono>
#include <cmath>

#include "inspect/ancestors.h"
#include "inspect/diagnosis.h"
#include "inspect/json.h"
#include "inspect/proc.h"
#include "serve/metrics.h"
#include "serve/view.h"

namespace holdfast::serve {

namespace {

using inspect::Json;

constexpr double kDoctorLooksAtProcesses = 1;

/// Seconds since 1970.
double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::round(std::chrono::duration<double>(since).count() * 1e3) / 1e3;
}

Json head(const View& view) {
  Json json;
  inspect::add_text(json, "directory", view.directory);
  json["time"] = view.time;
  return json;
}

std::string text(const Json& json) { return inspect::to_text(json, inspect::Layout::line) + "\n"; }

void add_dictionaries(View& view, Documents& documents) {
  Json all = head(view);
  all["dictionaries"] = Json::array();
  for (const DictionaryView& one : view.dictionaries) {
    const auto users = inspect::users_of(one.dictionary, view.openers, view.processes);
    Json json = inspect::to_json(one.dictionary, users);
    documents["dictionary/" + one.dictionary.name] = text(json);
    all["dictionaries"].push_back(std::move(json));
  }
  documents["dictionaries"] = text(all);
}

void add_locks(View& view, Documents& documents) {
  Json json = head(view);
  json["count"] = view.lock_count;
  json["locks"] = Json::array();
  const inspect::Ancestors ancestors = inspect::ancestors_of_waiters(view.locks, view.processes);
  for (const inspect::Lock& lock : view.locks)
    json["locks"].push_back(inspect::to_json(lock, view.processes, ancestors));
  documents["locks"] = text(json);
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
  Json json = head(view);
  json["dictionaries"] = Json::array();
  for (const DictionaryView& one : view.dictionaries) {
    Json& dictionary = json["dictionaries"].emplace_back();
    inspect::add_text(dictionary, "name", one.dictionary.name);
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      dictionary[kKindNames[kind]] = {{"waited", to_json(one.waited[kind])}, {"held", to_json(one.held[kind])}};
  }
  documents["histograms"] = text(json);
}

void add_contention(const View& view, Documents& documents) {
  Json json = head(view);
  json["keys"] = Json::array();
  for (const DictionaryView& one : view.dictionaries) {
    for (const holdfast_contended& key : one.contended) {
      Json& to = json["keys"].emplace_back();
      inspect::add_text(to, "dictionary", one.dictionary.name);
      inspect::add_text(to, "key", key_of(key));
      to["key_length"] = key.key_length;
      to["kind"] = kKindNames[key.kind % kKinds];
      to["waits"] = key.waits;
      to["timeouts"] = key.timeouts;
      to["refused"] = key.refused;
      to["wait_time"] = key.wait_time;
    }
  }
  documents["contention"] = text(json);
}

}  // namespace

Documents look_at_world(std::uint32_t keys) {
  auto view = gather_view();
  if (!view) return {{"error", view.status().message}};
  view->time = now();
  Documents documents;
  documents["metrics"] = metrics_of(*view, keys, MetricsFormat::prometheus);
  documents["openmetrics"] = metrics_of(*view, keys, MetricsFormat::openmetrics);
  add_dictionaries(*view, documents);
  add_locks(*view, documents);
  add_histograms(*view, documents);
  add_contention(*view, documents);
  return documents;
}

Documents ask_doctor() {
  inspect::Findings obstacles;
  inspect::Patient patient = inspect::gather(
      [](const std::string& directory) {
        return inspect::Openers::read(directory, inspect::all_pids(), kDoctorLooksAtProcesses);
      },
      obstacles);
  Json json = inspect::to_json(patient, inspect::examine(patient, obstacles));
  json["time"] = now();
  return {{"doctor", text(json)}};
}

}  // namespace holdfast::serve
