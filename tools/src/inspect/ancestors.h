// Finds commands that wait for commands. A waiting process may be a descendant of a process that holds a lock and
// continues only when its child exits, as in "holdfast lock a -- sh -c '...; holdfast lock b -- ...'".
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "inspect/locks.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

/// Maps the token of a waiter to the tokens of the holders among its ancestors, nearest first. Waiters without such
/// ancestors are absent.
using Ancestors = std::map<std::uint64_t, std::vector<std::uint64_t>>;

/// Climbs from the waiting processes for a limited number of generations. Finds only processes of this machine.
Ancestors ancestors_of_waiters(const std::vector<Lock>& locks, Processes& processes);

/// Returns the pid of the nearest ancestor that holds a lock; 0 if there is none.
std::uint32_t parent_that_holds(std::uint64_t waiter, const Ancestors& ancestors, Processes& processes);

}  // namespace holdfast::inspect
