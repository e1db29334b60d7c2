#include "serve/metrics.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "serve/families.h"

namespace holdfast::serve {

namespace {

#include "serve/families.inc"

/// The metrics to request from the clusters' agents.
const std::vector<Family> kAgentFamilies{
    {"holdfast_agent_up", "gauge", "1 if the agent of the cluster answers."},
    {"holdfast_agent_uptime_seconds", "gauge", "Time since the agent started."},
    {"holdfast_agent_locks_here", "gauge", "Locks that this machine holds."},
    {"holdfast_agent_locks_wanted", "gauge", "Locks that this machine waits for."},
    {"holdfast_agent_grants_by_answer_total", "counter", "Locks granted at once, by the first request."},
    {"holdfast_agent_grants_by_bell_total", "counter", "Locks acquired after a notification from another machine."},
    {"holdfast_agent_grants_by_look_total", "counter", "Locks acquired by polling, without a notification."},
    {"holdfast_agent_grants_broken_total", "counter", "Locks lost because somebody broke them."},
    {"holdfast_agent_hand_overs_total", "counter", "Locks handed over to a waiting machine."},
    {"holdfast_agent_returns_total", "counter", "Locks returned unused."},
    {"holdfast_agent_sessions_lost_total", "counter", "Sessions lost, with all locks of this machine."},
    {"holdfast_agent_bells_total", "counter", "Notifications received from other machines."},
    {"holdfast_agent_dead_bells_total", "counter", "Minutes in which no notification arrived."},
    {"holdfast_agent_requests_total", "counter", "Requests to the store."},
    {"holdfast_agent_requests_refused_total", "counter", "Requests that the store refused."},
    {"holdfast_agent_requests_unanswered_total", "counter", "Requests that the store did not answer in time."},
    {"holdfast_agent_request_seconds", "histogram", "How long the store took to answer."},
};

std::vector<Family> families() {
  std::vector<Family> all = kLibraryFamilies;
  all.insert(all.end(), kAgentFamilies.begin(), kAgentFamilies.end());
  return all;
}

/// Returns the counts up to each bound. If one of the library's buckets contains a bound, its values count towards the
/// next bound.
Folded fold(const holdfast_histogram& histogram) {
  Folded folded;
  std::uint32_t at = 0;
  std::uint64_t sum = 0;
  for (const double bound : kBounds) {
    for (; at < HOLDFAST_BUCKETS && holdfast_bucket_end(at) <= bound; ++at) sum += histogram.buckets[at];
    folded.within.emplace_back(bound, sum);
  }
  folded.count = histogram.count;
  folded.sum = histogram.sum;
  return folded;
}

double as_double(std::uint64_t value) { return static_cast<double>(value); }

void add_counts(const DictionaryView& view, Metrics& metrics) {
  const holdfast_stats& counts = view.dictionary.counts;
  constexpr double kMilli = 1e-3;
  const std::pair<const char*, double> values[] = {
      {"dictionary_capacity_bytes", as_double(view.dictionary.size)},
      {"dictionary_used_bytes", as_double(counts.bytes_used)},
      {"dictionary_free_bytes", as_double(counts.bytes_free)},
      {"dictionary_entries", as_double(counts.entries)},
      {"dictionary_hits_total", as_double(counts.hits)},
      {"dictionary_misses_total", as_double(counts.misses)},
      {"dictionary_evictions_total", as_double(counts.evictions)},
      {"dictionary_expirations_total", as_double(counts.expirations)},
      {"dictionary_repairs_total", as_double(counts.repairs)},
      {"dictionary_mutex_waits_total", as_double(counts.mutex_waits)},
      {"lock_waits_total", as_double(counts.lock_waits)},
      {"lock_wakes_total", as_double(counts.lock_wakes)},
      {"lock_reserved_seconds_total", as_double(counts.lock_reserved_ms) * kMilli},
  };
  const Labels labels{{"dictionary", view.dictionary.name}};
  for (const auto& [name, value] : values) metrics.add(std::string("holdfast_") + name, labels, value);
}

void add_locks(const DictionaryView& view, Metrics& metrics) {
  if (!view.locks_listed) return;  // the numbers would be wrong
  const std::string& name = view.dictionary.name;
  metrics.add("holdfast_lock_waiters", {{"dictionary", name}}, as_double(view.waiters));
  metrics.add("holdfast_lock_longest_wait_seconds", {{"dictionary", name}}, view.longest_wait);
  metrics.add("holdfast_lock_longest_hold_seconds", {{"dictionary", name}, {"waiters", "no"}}, view.longest_hold[0]);
  metrics.add("holdfast_lock_longest_hold_seconds", {{"dictionary", name}, {"waiters", "yes"}}, view.longest_hold[1]);
}

void add_kinds(const DictionaryView& view, Metrics& metrics) {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Labels labels{{"dictionary", view.dictionary.name}, {"kind", kKindNames[kind]}};
    if (view.locks_listed) metrics.add("holdfast_locks_held", labels, as_double(view.holds[kind]));
    if (view.waited[kind].count > 0) metrics.add("holdfast_lock_wait_seconds", labels, fold(view.waited[kind]));
    if (view.held[kind].count > 0) metrics.add("holdfast_lock_hold_seconds", labels, fold(view.held[kind]));
  }
}

void add_keys(const DictionaryView& view, std::uint32_t keys, Metrics& metrics) {
  for (std::size_t i = 0; i < view.contended.size() && i < keys; ++i) {
    const holdfast_contended& one = view.contended[i];
    const Labels labels{
        {"dictionary", view.dictionary.name}, {"kind", kKindNames[one.kind % kKinds]}, {"key", key_of(one)}};
    metrics.add("holdfast_key_waits_total", labels, as_double(one.waits));
    metrics.add("holdfast_key_wait_seconds_total", labels, one.wait_time);
  }
}

void add_cache(const DictionaryView& view, Metrics& metrics) {
  for (const auto& [count, sum] : view.cache_counts) {
    const std::string name = count;
    const bool is_stale = name == "stale";
    if (is_stale || name.ends_with("_hits"))
      metrics.add("holdfast_cache_hits_total",
                  {{"dictionary", view.dictionary.name}, {"level", is_stale ? name : name.substr(1, 1)}},
                  as_double(sum));
    else
      metrics.add("holdfast_cache_" + name + "_total", {{"dictionary", view.dictionary.name}}, as_double(sum));
  }
}

void add_queue(const DictionaryView& view, Metrics& metrics) {
  if (!view.queue) return;
  const std::string& name = view.dictionary.name;
  metrics.add("holdfast_queue_waiting", {{"dictionary", name}}, as_double(view.queue->waiting));
  metrics.add("holdfast_queue_oldest_seconds", {{"dictionary", name}}, view.queue->oldest);
  if (!view.queue->is_counted) return;
  const std::pair<const char*, std::uint64_t> counts[] = {{"ready", view.queue->ready},
                                                          {"delayed", view.queue->delayed},
                                                          {"taken", view.queue->taken},
                                                          {"dead", view.queue->dead}};
  for (const auto& [state, count] : counts)
    metrics.add("holdfast_queue_jobs", {{"dictionary", name}, {"state", state}}, as_double(count));
}

void add_cluster(const DictionaryView& view, Metrics& metrics) {
  if (!view.in_cluster) return;
  const Labels labels{{"dictionary", view.dictionary.name}, {"cluster", static_cast<const char*>(view.cluster.name)}};
  metrics.add("holdfast_cluster_standing", labels, view.cluster.seconds > 0 ? 1 : 0);
  metrics.add("holdfast_cluster_available", labels, view.is_available ? 1 : 0);
  metrics.add("holdfast_cluster_session_seconds", labels, view.cluster.seconds);
}

void add_latency(const AgentView& agent, const Labels& labels, Metrics& metrics) {
  constexpr std::string_view kLatency = "latency_us_";
  constexpr double kMicro = 1e-6;
  std::map<std::uint64_t, std::uint64_t> within;
  Folded folded;
  for (const auto& [name, value] : agent.fields) {
    const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "latency_count") folded.count = number;
    if (name == "latency_us_sum") folded.sum = as_double(number) * kMicro;
    if (name.starts_with(kLatency) && name != "latency_us_sum")
      within[std::strtoull(name.c_str() + kLatency.size(), nullptr, 10)] = number;
  }
  for (const auto& [bound, count] : within) folded.within.emplace_back(as_double(bound) * kMicro, count);
  metrics.add("holdfast_agent_request_seconds", labels, std::move(folded));
}

void add_agent(const std::string& cluster, const AgentView& agent, Metrics& metrics) {
  constexpr double kMilli = 1e-3;
  const Labels labels{{"cluster", cluster}};
  metrics.add("holdfast_agent_up", labels, agent.answered ? 1 : 0);
  if (!agent.answered) return;
  for (const auto& [name, value] : agent.fields) {
    const double number = std::strtod(value.c_str(), nullptr);
    // Add only what the answer contains; text() omits families without samples.
    if (name == "up_ms")
      metrics.add("holdfast_agent_uptime_seconds", labels, number * kMilli);
    else if (name.starts_with("locks_"))
      metrics.add("holdfast_agent_" + name, labels, number);
    else
      metrics.add("holdfast_agent_" + name + "_total", labels, number);
  }
  add_latency(agent, labels, metrics);
}

}  // namespace

std::string metrics_of(const View& view, std::uint32_t keys, MetricsFormat format) {
  Metrics metrics;
  const holdfast_stats* world = nullptr;  // the counts for the whole world, which are the same in each dictionary
  for (const DictionaryView& one : view.dictionaries) {
    if (!one.dictionary.trouble.empty()) continue;
    world = &one.dictionary.counts;
    add_counts(one, metrics);
    add_locks(one, metrics);
    add_kinds(one, metrics);
    add_keys(one, keys, metrics);
    add_cache(one, metrics);
    add_queue(one, metrics);
    add_cluster(one, metrics);
  }
  for (const auto& [cluster, agent] : view.agents) add_agent(cluster, agent, metrics);
  metrics.add("holdfast_dictionaries_unreadable", {}, as_double(view.unreadable));
  if (world != nullptr) {
    metrics.add("holdfast_lives_unknown_total", {}, as_double(world->lives_unknown));
    metrics.add("holdfast_words_mended_total", {}, as_double(world->words_mended));
  }
  return metrics.text(families(), format);
}

}  // namespace holdfast::serve
