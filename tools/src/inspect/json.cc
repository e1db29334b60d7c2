#include "inspect/json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>

#include "inspect/text.h"
#include "inspect/uses.h"
#include "world/world_file.h"

namespace holdfast::inspect {

namespace {

constexpr int kIndent = 2;

/// Returns the time `seconds` ago, as RFC 3339 in UTC.
std::string time_ago(double seconds) {
  const auto then = static_cast<std::time_t>(static_cast<double>(std::time(nullptr)) - seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&then, &parts);
  std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
  return text.data();
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json to_json(const holdfast_holder& holder, Processes& processes) {
  Json json = to_json(processes.of(holder.owner));
  json["token"] = holder.sequence != 0 ? Json(holder.sequence) : Json();
  json["share"] = share_in_words(holder);
  json["permits"] = holder.permits == HOLDFAST_ALL_PERMITS ? Json() : Json(holder.permits);
  json["since"] = time_ago(holder.held);
  json["held"] = rounded(holder.held);
  json["remaining"] = holder.remaining > 0 ? Json(rounded(holder.remaining)) : Json();
  json["why"] = nullptr;
  if (holder.why[0] != '\0') add_text(json, "why", static_cast<const char*>(holder.why));
  return json;
}

Json to_json(const holdfast_waiter& waiter, Processes& processes, const Ancestors& ancestors) {
  Json json = to_json(processes.of(waiter.owner));
  json["waited"] = rounded(waiter.waited);
  json["permits"] = waiter.want == HOLDFAST_ALL_PERMITS ? Json() : Json(waiter.want);
  json["watches"] = waiter.watches != 0;
  const std::uint32_t parent = parent_that_holds(waiter.owner, ancestors, processes);
  json["child_of"] = parent != 0 ? Json(parent) : Json();
  return json;
}

}  // namespace

double rounded(double seconds) { return std::round(seconds * 1e3) / 1e3; }

std::string to_text(const Json& json, Layout layout) {
  const bool for_people = layout == Layout::indented;
  std::string text = json.dump(for_people ? kIndent : -1, ' ', for_people, Json::error_handler_t::replace);
  if (!for_people) return text;
  // DEL is the only control character that JSON does not escape. It occurs only in strings.
  for (std::size_t at = 0; (at = text.find('\x7F', at)) != std::string::npos;) text.replace(at, 1, "\\u007f");
  return text;
}

void add_text(Json& to, const char* name, const std::string& text) {
  if (is_utf8(text)) {
    to[name] = text;
    return;
  }
  to[name] = escaped(text);
  to[std::string(name) + "_hex"] = hexadecimal(text);
}

Json to_json(const Process& process) {
  Json json;
  json["pid"] = process.pid != 0 ? Json(process.shown_pid()) : Json();
  json["pid_is_here"] = process.pid_here != 0;
  add_text(json, "program", process.program);
  json["host"] = or_null(process.host);
  json["worker"] = process.is_worker ? Json(process.worker) : Json();
  json["state"] = life_in_words(process.life);
  return json;
}

namespace {

Json to_json(const std::optional<Queue>& queue) {
  if (!queue) return {};
  Json json{{"waiting", queue->waiting}, {"oldest", queue->oldest}};
  const auto or_unknown = [&](std::uint64_t count) { return queue->is_counted ? Json(count) : Json(); };
  json["ready"] = or_unknown(queue->ready);
  json["delayed"] = or_unknown(queue->delayed);
  json["taken"] = or_unknown(queue->taken);
  json["dead"] = or_unknown(queue->dead);
  return json;
}

}  // namespace

Json to_json(const Dictionary& dictionary, const Users& users) {
  Json json;
  add_text(json, "name", dictionary.name);
  json["file"] = dictionary.file.name;
  json["trouble"] = or_null(dictionary.trouble);
  if (!dictionary.trouble.empty()) return json;
  const holdfast_stats& counts = dictionary.counts;
  const std::uint64_t reads = dictionary.reads();
  json["size"] = dictionary.size;
  json["used"] = counts.bytes_used;
  json["free"] = counts.bytes_free;
  json["memory"] = dictionary.file.bytes_taken;
  json["largest_value"] = dictionary.largest_value;
  json["entries"] = counts.entries;
  json["hits"] = counts.hits;
  json["misses"] = counts.misses;
  json["hit_ratio"] = reads != 0 ? Json(static_cast<double>(counts.hits) / static_cast<double>(reads)) : Json();
  json["evictions"] = counts.evictions;
  json["expirations"] = counts.expirations;
  json["repairs"] = counts.repairs;
  json["mutex_waits"] = counts.mutex_waits;
  json["lock_waits"] = counts.lock_waits;
  json["lock_wakes"] = counts.lock_wakes;
  json["lock_reserved_ms"] = counts.lock_reserved_ms;
  json["mutex"] = dictionary.file.mutex;
  json["shards"] = dictionary.file.shards;
  json["persist"] = dictionary.file.persist != kTemporary;
  json["life"] = life_in_words(dictionary.file);
  json["mode"] = fmt::format("{:04o}", dictionary.file.mode);
  json["cluster"] = or_null(dictionary.cluster);
  json["queue"] = to_json(queue_in(dictionary.name, dictionary.handle));
  json["cache"] = Json();
  for (const auto& [name, sum] : cache_counts_in(dictionary.handle)) json["cache"][name] = sum;
  Json list = Json::array();
  for (const Opener& opener : users.seen) {
    Json one;
    one["pid"] = opener.pid;
    add_text(one, "program", opener.program);
    list.push_back(one);
  }
  json["processes"] = list;
  json["processes_complete"] = users.complete;
  return json;
}

Json to_json(const Lock& lock, Processes& processes, const Ancestors& ancestors) {
  Json json;
  add_text(json, "dictionary", lock.dictionary);
  add_text(json, "key", lock.key);
  json["kind"] = lock.holders.empty() ? Json() : Json(kind_in_words(lock));
  json["trouble"] = or_null(lock.trouble);
  json["holder_count"] = lock.holder_count;
  json["holders"] = Json::array();
  for (const holdfast_holder& holder : lock.holders) json["holders"].push_back(to_json(holder, processes));
  json["waiter_count"] = lock.waiter_count;
  json["waiters"] = Json::array();
  for (const holdfast_waiter& waiter : lock.waiters) json["waiters"].push_back(to_json(waiter, processes, ancestors));
  return json;
}

Json to_json(const DirectoryLook& look) {
  return {{"directory", look.path}, {"user", look.user}, {"trouble", or_null(without_controls(look.trouble))}};
}

Json to_json(const Finding& finding) {
  Json json;
  json["severity"] = severity_in_words(finding.severity);
  json["subject"] = or_null(escaped(finding.subject));
  json["sentence"] = escaped(finding.sentence);
  json["advice"] = or_null(finding.advice);
  return json;
}

Json to_json(const WorldSnapshot& snapshot, const Findings& findings) {
  Json json;
  add_text(json, "directory", snapshot.directory);
  json["status"] = worst_of(findings) == Severity::note ? "ok" : severity_in_words(worst_of(findings));
  json["findings"] = Json::array();
  for (const Finding& finding : findings) json["findings"].push_back(to_json(finding));
  return json;
}

}  // namespace holdfast::inspect
