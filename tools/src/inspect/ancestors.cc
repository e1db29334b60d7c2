#include "inspect/ancestors.h"

#include "inspect/proc.h"

namespace holdfast::inspect {

namespace {

constexpr int kGenerations = 32;

/// Finds the parents of processes. Looks up each process only once, because most processes have the same ancestors.
class Parents {
 public:
  std::uint32_t of(std::uint32_t pid) {
    const auto [known, is_new] = known_.try_emplace(pid, 0);
    if (!is_new) return known->second;
    const auto stat = read_stat(pid);
    return known->second = stat ? stat->parent : 0;
  }

 private:
  std::map<std::uint32_t, std::uint32_t> known_;
};

using Holders = std::map<std::uint32_t, std::uint64_t>;  // maps a holder's pid, as seen here, to its token

/// Returns the holders that are not dead. The pid of a dead holder may belong to a different process now.
Holders living_holders(const std::vector<Lock>& locks, Processes& processes) {
  Holders found;
  for (const Lock& lock : locks) {
    for (const holdfast_holder& holder : lock.holders) {
      const Process& process = processes.of(holder.owner);
      if (process.pid_here != 0 && process.is_there()) found[process.pid_here] = holder.owner;
    }
  }
  return found;
}

std::vector<std::uint64_t> climb(std::uint32_t pid, const Holders& holders, Parents& parents) {
  std::vector<std::uint64_t> found;
  for (int i = 0; i < kGenerations && pid > 1; ++i) {
    pid = parents.of(pid);
    const auto holder = holders.find(pid);
    if (holder != holders.end()) found.push_back(holder->second);
  }
  return found;
}

}  // namespace

Ancestors ancestors_of_waiters(const std::vector<Lock>& locks, Processes& processes) {
  Ancestors ancestors;
  const Holders holders = living_holders(locks, processes);
  Parents parents;
  for (const Lock& lock : locks) {
    for (const holdfast_waiter& waiter : lock.waiters) {
      const auto [added, is_new] = ancestors.try_emplace(waiter.owner);
      const Process& process = processes.of(waiter.owner);
      if (is_new && process.is_there()) added->second = climb(process.pid_here, holders, parents);
    }
  }
  std::erase_if(ancestors, [](const auto& each) { return each.second.empty(); });
  return ancestors;
}

std::uint32_t parent_that_holds(std::uint64_t waiter, const Ancestors& ancestors, Processes& processes) {
  const auto found = ancestors.find(waiter);
  return found != ancestors.end() ? processes.of(found->second.front()).shown_pid() : 0;
}

}  // namespace holdfast::inspect
