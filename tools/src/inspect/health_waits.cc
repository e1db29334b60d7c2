#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/name.h"
#include "inspect/ancestors.h"
#include "inspect/health.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/rings.h"
#include "inspect/text.h"

namespace holdfast::inspect {

namespace {

constexpr std::size_t kMostLocks = 10000;
constexpr std::size_t kMostFindings = 10;  // the limit for each kind of finding

std::string name_of(const Lock& lock) { return escaped(lock.dictionary) + " " + escaped(lock.key); }

// --- rings ---

/// Returns a text such as "commands wait for each other: pid 4733 (mail.sh) waits for commands mail, and its parent
/// command holds ...".
std::string ring_in_words(const Ring& ring, Processes& processes) {
  const RingLink& link = ring.front();
  const bool of_commands =
      std::all_of(ring.begin(), ring.end(), [](const RingLink& each) { return each.is_in_child(); });
  const std::string count = ring.size() > 2 ? fmt::format("{} ", ring.size()) : "";
  return fmt::format("{}{} wait for each other: {} waits for {}, and {} holds {}", count,
                     of_commands ? "commands" : "processes", in_words(processes.of(link.waiter->owner)),
                     name_of(*link.lock), link.is_in_child() ? "its parent command" : "it", name_of(*ring.back().lock));
}

/// Adds a finding for each ring. Returns the locks in rings.
std::set<const Lock*> report_rings(const std::vector<Lock>& locks, WorldSnapshot& snapshot, const Limits& limits,
                                   Findings& findings) {
  const Ancestors ancestors = ancestors_of_waiters(locks, snapshot.processes);
  std::set<const Lock*> in_rings;
  std::size_t found = 0;
  for (const Ring& ring : find_rings(locks, ancestors, limits.waiting)) {
    for (const RingLink& link : ring) in_rings.insert(link.lock);
    if (++found > kMostFindings) continue;
    findings.push_back({Severity::warning, "", ring_in_words(ring, snapshot.processes),
                        "end one of them (\"holdfast locks --waiting\" shows all), and take these locks in the same "
                        "order everywhere"});
  }
  return in_rings;
}

// --- long waits and holds ---

struct Stuck {
  const Lock* lock = nullptr;
  WaitsNow waits;
};

/// Returns whether the lock exceeds the limits. A lock of dead processes does not count, because there is already a
/// finding about it.
bool is_stuck(const Lock& lock, const WaitsNow& waits, const Limits& limits, Processes& processes) {
  if (waits.count == 0 || (!lock.holders.empty() && living_holder(lock, processes) == nullptr)) return false;
  return waits.longest > limits.waiting || (!lock.holders.empty() && lock.holders.front().held > limits.held);
}

std::string hold_in_words(const Lock& lock, Processes& processes) {
  if (!lock.trouble.empty()) return fmt::format("it is unknown which process holds {}", quote_whole(lock.key));
  const holdfast_holder* const holder = living_holder(lock, processes);
  if (holder == nullptr) return fmt::format("no process on this machine holds {}", quote_whole(lock.key));
  const Process& process = processes.of(holder->owner);
  std::string text =
      fmt::format("{} has been held by {}{}", quote_whole(lock.key), in_words(process), comma_after(process));
  if (lock.holder_count > 1) text += fmt::format(" and {} more", lock.holder_count - 1);
  text += " for " + duration_in_words(holder->held);
  return holder->why[0] != '\0' ? text + fmt::format(" (why: {})", static_cast<const char*>(holder->why)) : text;
}

std::string stuck_in_words(const Stuck& stuck, Processes& processes) {
  const std::string longest = duration_in_words(stuck.waits.longest);
  return fmt::format("{}, and {}", hold_in_words(*stuck.lock, processes),
                     stuck.waits.count == 1 ? fmt::format("a caller has waited for it for {}", longest)
                                            : fmt::format("{} callers have waited for it, the longest for {}",
                                                          stuck.waits.count, longest));
}

void report_stuck(std::vector<Stuck> stuck, Processes& processes, Findings& findings) {
  std::stable_sort(stuck.begin(), stuck.end(),
                   [](const Stuck& one, const Stuck& other) { return one.waits.longest > other.waits.longest; });
  for (std::size_t i = 0; i < stuck.size() && i < kMostFindings; ++i)
    findings.push_back({Severity::warning, "dictionary " + escaped(stuck[i].lock->dictionary),
                        stuck_in_words(stuck[i], processes),
                        "find out what the holder does, end it, or take the lock from it (\"holdfast release\")"});
  if (stuck.size() > kMostFindings)
    findings.push_back({Severity::warning, "",
                        fmt::format("callers wait too long for {}",
                                    counted(stuck.size() - kMostFindings, "further key", "further keys")),
                        "\"holdfast locks --waiting\" shows all"});
}

}  // namespace

void check_waits(WorldSnapshot& snapshot, const Limits& limits, Findings& findings) {
  std::vector<Lock> locks;
  for (const Dictionary& dictionary : snapshot.dictionaries)
    if (dictionary.trouble.empty())
      static_cast<void>(gather_locks(dictionary.handle, dictionary.name, "", Which::waited_for, kMostLocks, locks));
  drop_dead_waiters(locks, snapshot.processes);
  const std::set<const Lock*> in_rings = report_rings(locks, snapshot, limits, findings);
  std::vector<Stuck> stuck;
  for (const Lock& lock : locks) {
    const WaitsNow waits = waits_now(lock);
    if (!in_rings.contains(&lock) && is_stuck(lock, waits, limits, snapshot.processes)) stuck.push_back({&lock, waits});
  }
  report_stuck(std::move(stuck), snapshot.processes, findings);
}

}  // namespace holdfast::inspect
