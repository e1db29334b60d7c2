#include "look/top_json.h"

#include <cmath>
#include <ctime>
#include <optional>

namespace holdfast::cli {

namespace {

using inspect::Json;

constexpr double kThousandths = 1e3;
constexpr double kMillionths = 1e6;

double rounded(double number, double parts) { return std::round(number * parts) / parts; }

Json seconds_or_null(const std::optional<double>& seconds) {
  return seconds ? Json(rounded(*seconds, kMillionths)) : Json();
}

Json to_json(const inspect::Snapshot& seen, const inspect::LockRates& rates) {
  const inspect::Lock* const lock = rates.lock;
  const bool is_held = lock != nullptr && !lock->holders.empty();
  const std::uint32_t waiters = lock != nullptr ? lock->waiter_count : 0;
  Json json;
  if (!rates.user.empty()) json["user"] = rates.user;
  inspect::add_text(json, "dictionary", rates.dictionary);
  inspect::add_text(json, "key", rates.key);
  json["kind"] = is_held ? Json(inspect::kind_in_words(*lock)) : Json();
  json["trouble"] = lock == nullptr || lock->trouble.empty() ? Json() : Json(lock->trouble);
  json["holder_count"] = lock != nullptr ? lock->holder_count : 0;
  json["holder"] = is_held ? inspect::to_json(seen.user(*lock, lock->holders.front().owner)) : Json();
  json["held"] = is_held ? Json(rounded(lock->holders.front().held, kThousandths)) : Json();
  json["waiter_count"] = waiters;
  json["waited"] = waiters != 0 ? Json(rounded(rates.longest_wait, kThousandths)) : Json();
  json["contention"] = rounded(rates.contention, kThousandths);
  json["why"] = nullptr;
  if (is_held && lock->holders.front().why[0] != '\0')
    inspect::add_text(json, "why", static_cast<const char*>(lock->holders.front().why));
  return json;
}

Json to_json(const inspect::DictionaryRates& rates) {
  const inspect::DictionaryLook& look = *rates.look;
  Json json;
  if (!look.user.empty()) json["user"] = look.user;
  inspect::add_text(json, "name", look.name);
  json["trouble"] = look.trouble.empty() ? Json() : Json(look.trouble);
  if (!look.trouble.empty()) return json;
  json["size"] = look.size;
  json["used"] = look.counts.bytes_used;
  json["entries"] = look.counts.entries;
  json["hit_ratio"] = rates.hit_ratio ? Json(rounded(*rates.hit_ratio, kMillionths)) : Json();
  json["reads"] = rounded(rates.reads, kThousandths);
  json["grants"] = rounded(rates.grants, kThousandths);
  json["evictions"] = rounded(rates.evictions, kThousandths);
  json["waits"] = rounded(rates.waits, kThousandths);
  json["wait_median"] = seconds_or_null(rates.median_wait);
  json["wait_p99"] = seconds_or_null(rates.p99_wait);
  json["loads"] = rates.loads ? Json(rounded(*rates.loads, kThousandths)) : Json();
  json["jobs"] = look.jobs < 0 ? Json() : Json(look.jobs);
  return json;
}

Json head_to_json(const inspect::Snapshot& seen, const inspect::Rates& rates) {
  Json json;
  inspect::add_text(json, "directory", seen.directory);
  json["time"] = static_cast<std::int64_t>(std::time(nullptr));
  json["interval"] = rounded(rates.seconds, kThousandths);
  json["processes"] = seen.processes;
  json["reads"] = rounded(rates.reads, kThousandths);
  json["grants"] = rounded(rates.grants, kThousandths);
  json["waits"] = rounded(rates.waits, kThousandths);
  json["room_free"] = seen.room_free;
  json["room"] = seen.room_whole != 0 ? Json(seen.room_whole) : Json();
  for (const inspect::DirectoryLook& one : seen.directories) json["directories"].push_back(inspect::to_json(one));
  return json;
}

}  // namespace

Json to_json(const TopView& view) {
  const inspect::Snapshot& seen = view.snapshot();
  const inspect::Rates& rates = view.rates();
  const auto rows = [&](TopPane pane) {
    return rows_of(pane, seen, rates, view.filter, view.orders[static_cast<std::size_t>(pane)]);
  };
  Json json = head_to_json(seen, rates);
  json["locks"] = Json::array();
  for (const TopRow& row : rows(TopPane::locks)) json["locks"].push_back(to_json(seen, rates.locks[row.source]));
  json["dictionaries"] = Json::array();
  for (const TopRow& row : rows(TopPane::dictionaries))
    json["dictionaries"].push_back(to_json(rates.dictionaries[row.source]));
  return json;
}

}  // namespace holdfast::cli
