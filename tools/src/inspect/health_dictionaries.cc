#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "inspect/health.h"
#include "inspect/locks.h"
#include "inspect/text.h"
#include "inspect/uses.h"
#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

constexpr double kFull = 0.95;  // the fraction of the space for values
constexpr const char* kRepair = "\"holdfast doctor --repair\" repairs it";

struct HeldByDead {
  std::size_t keys = 0;
  std::size_t waited_for = 0;
};

bool is_waited_for(const Lock& lock, WorldSnapshot& snapshot) {
  return std::any_of(lock.waiters.begin(), lock.waiters.end(), [&](const holdfast_waiter& waiter) {
    return snapshot.processes.of(waiter.owner).life != Life::dead;
  });
}

Expected<HeldByDead> find_held_by_dead(const Dictionary& dictionary, WorldSnapshot& snapshot) {
  HeldByDead found;
  for (LockScan scan(dictionary.handle, dictionary.name, ""); !scan.done();) {
    std::vector<Lock> locks;
    if (const Status looked = scan.next(Which::all, SIZE_MAX, locks); !looked.ok()) return looked;
    for (const Lock& lock : locks) {
      const bool of_dead = std::any_of(lock.holders.begin(), lock.holders.end(), [&](const holdfast_holder& holder) {
        return snapshot.processes.of(holder.owner).life == Life::dead;
      });
      found.keys += of_dead ? 1 : 0;
      found.waited_for += of_dead && is_waited_for(lock, snapshot) ? 1 : 0;
    }
  }
  return found;
}

/// Checks one dictionary.
class DictionaryCheck {
 public:
  DictionaryCheck(const Dictionary& dictionary, WorldSnapshot& snapshot, Findings& findings)
      : dictionary_(dictionary), snapshot_(snapshot), findings_(findings) {}

  void run() {
    if (!dictionary_.trouble.empty()) return report_trouble();
    check_damage();
    check_mutexes();
    check_dead_owners();
    check_counts();
    check_queue();
    check_cluster();
  }

 private:
  std::string subject() const { return "dictionary " + escaped(dictionary_.name); }

  void add(Severity severity, const std::string& sentence, const std::string& advice) {
    findings_.push_back({severity, subject(), sentence, advice});
  }

  /// Returns whether an earlier check has reported the subject. A fault may have several symptoms, of which the first
  /// describes the fault best.
  bool was_reported(Severity least, const std::string& of) const {
    return std::any_of(findings_.begin(), findings_.end(),
                       [&](const Finding& one) { return one.severity >= least && one.subject == of; });
  }

  void report_trouble() {
    if (was_reported(Severity::warning, dictionary_.file.name)) return;
    Finding finding = finding_of(Severity::error, subject(), "cannot be used: " + dictionary_.trouble);
    if (finding.advice.empty()) finding.advice = "\"holdfast rm --force " + escaped(dictionary_.name) + "\" removes it";
    findings_.push_back(finding);
  }

  static std::string parts(std::uint32_t count) { return counted(count, "part", "parts"); }

  void check_damage() {
    const int code = holdfast_check(dictionary_.handle, &health_, sizeof health_);
    if (code != HOLDFAST_OK) return add(Severity::error, "cannot be checked: " + sentence(code), "");
    if (health_.damaged != 0)
      add(Severity::error,
          fmt::format("{} of {} is damaged: memory was overwritten", parts(health_.damaged), health_.used),
          std::string(kRepair) + "; entries that cannot be saved are lost");
    const std::uint32_t busy =
        health_.uncertain - std::min(health_.uncertain, health_.held + health_.held_by_dead + health_.held_by_idle);
    if (busy != 0)
      add(Severity::note,
          fmt::format("{} of {} changed during every check, so damage there would go unnoticed", parts(busy),
                      health_.used),
          "");
  }

  void check_mutexes() {
    const Process& holder = snapshot_.processes.of(health_.holder);
    if (health_.held_by_dead != 0)
      add(Severity::warning,
          fmt::format("{} was left locked by a process that died in the middle of a change",
                      parts(health_.held_by_dead)),
          std::string("the next change repairs it; ") + kRepair);
    if (health_.held_by_idle != 0)
      add(Severity::error,
          fmt::format("{} is marked as locked by {}, which has not locked it: memory was overwritten",
                      parts(health_.held_by_idle), in_words(holder)),
          std::string("the next change repairs it; ") + kRepair);
    if (health_.held != 0)
      add(Severity::error,
          fmt::format("{} is locked by {}, which makes no progress: changes there fail with \"timeout\"",
                      parts(health_.held), in_words(holder)),
          holder.life == Life::stopped ? "continue it (kill -CONT), or end it"
                                       : "find out what that process does, or end it");
  }

  void check_dead_owners() {
    auto held = find_held_by_dead(dictionary_, snapshot_);
    if (!held) {
      if (!was_reported(Severity::warning, subject()))
        add(Severity::error, "cannot list its locks: " + held.status().message, kRepair);
      return;
    }
    if (held->keys == 0) return;
    // If there is a waiter, it should have got the lock by now. Without a waiter, this state is normal: when the
    // command of `holdfast lock --no-fork` ends, its lock is always left in this state.
    add(held->waited_for != 0 ? Severity::warning : Severity::note,
        fmt::format("{} held by dead processes{}", counted(held->keys, "key is", "keys are"),
                    held->waited_for != 0 ? fmt::format(", {} of them with waiters", held->waited_for) : ""),
        "the next process that asks for one gets it; \"holdfast prune\" frees them all");
  }

  void check_counts() {
    const holdfast_stats& counts = dictionary_.counts;
    const auto used = static_cast<double>(counts.bytes_used);
    if (used > kFull * (used + static_cast<double>(counts.bytes_free)) && counts.evictions != 0)
      add(Severity::warning,
          fmt::format("is full: {} evicted so far", counted(counts.evictions, "live entry was", "live entries were")),
          "make it larger, or give values an exptime");
    if (counts.repairs != 0)
      add(Severity::note,
          fmt::format("has been repaired {} since it was created: a process died in the middle of a change, or "
                      "memory was overwritten",
                      counted(counts.repairs, "time", "times")),
          "");
  }

  void check_queue() {
    const auto queue = queue_in(dictionary_.name, dictionary_.handle);
    if (!queue || queue->dead == 0) return;
    const std::string name = escaped(dictionary_.name);
    add(Severity::warning, fmt::format("has {}, which failed too often", counted(queue->dead, "dead job", "dead jobs")),
        fmt::format("\"holdfast queue dead {}\" lists them, and \"holdfast queue retry {} JOB\" retries one", name,
                    name));
  }

  void check_cluster() {
    holdfast_cluster state{};
    if (dictionary_.cluster.empty() || holdfast_cluster_state(dictionary_.handle, &state) != HOLDFAST_UNAVAILABLE)
      return;
    const std::string why = sentence(HOLDFAST_UNAVAILABLE);
    const std::string cluster = escaped(dictionary_.cluster);
    if (state.agent == 0)
      return add(Severity::error,
                 fmt::format("belongs to cluster {}, which has no agent here: its locks are unavailable", cluster),
                 "restart holdfast-agent");
    constexpr const char* kAdvice = "check the agent's log and the store";
    if (state.seconds <= 0)
      return add(
          Severity::error,
          fmt::format("belongs to cluster {}, whose agent has no session with the store: its locks are unavailable",
                      cluster),
          kAdvice);
    // While the session lasts, this machine keeps the locks that it already has.
    add(Severity::error, fmt::format("belongs to cluster {}, which grants no new locks: {}", cluster, why), kAdvice);
  }

  const Dictionary& dictionary_;
  WorldSnapshot& snapshot_;
  Findings& findings_;
  holdfast_health health_{};
};

}  // namespace

void check_dictionary(const Dictionary& dictionary, WorldSnapshot& snapshot, Findings& findings) {
  const std::size_t known = findings.size();
  DictionaryCheck(dictionary, snapshot, findings).run();
  if (was_removed_since(snapshot.directory, dictionary)) findings.resize(known);  // removed during the check
}

bool needs_repair(const Dictionary& dictionary, WorldSnapshot& snapshot) {
  if (dictionary.handle == nullptr) return false;
  holdfast_health health{};
  if (const int code = holdfast_check(dictionary.handle, &health, sizeof health); code != HOLDFAST_OK)
    return !is_gone(snapshot.directory, dictionary.name, code);
  if (health.damaged + health.held_by_dead + health.held_by_idle != 0) return true;
  auto held = find_held_by_dead(dictionary, snapshot);
  if (!held) return !is_gone(snapshot.directory, dictionary.name, static_cast<int>(held.status().code));
  return held->keys != 0;
}

}  // namespace holdfast::inspect
