// Finds commands that wait for the end of other commands. The parent of a waiting process may itself hold a lock, and
// continue only when its child exits, as in "holdfast lock a -- sh -c '...; holdfast lock b -- ...'".
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "inspect/locks.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

/// Maps a waiter's token to the tokens of its ancestors that hold locks. The nearest ancestor is first. Waiters without
/// such ancestors are absent.
using Ancestors = std::map<std::uint64_t, std::vector<std::uint64_t>>;

/// Follows the parents of each waiting process for a limited number of generations. Finds only processes on this
/// machine.
Ancestors ancestors_of_waiters(const std::vector<Lock>& locks, Processes& processes);

/// Returns the pid of the waiter's nearest ancestor that holds a lock, or 0 if there is none.
std::uint32_t parent_that_holds(std::uint64_t waiter, const Ancestors& ancestors, Processes& processes);

}  // namespace holdfast::inspect
