// Commands that run commands: a process that waits may be a child, or a child's child, of one that holds a lock and
// goes on only when its child ends, as with "holdfast lock a -- sh -c '...; holdfast lock b -- ...'".
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "inspect/locks.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

/// By the token of a waiter: the tokens of holders that it is a child of, the nearest first. None without any.
using Ancestors = std::map<std::uint64_t, std::vector<std::uint64_t>>;

/// Climbs from the processes that wait, at most some generations. Only processes of this machine are found.
Ancestors ancestors_of_waiters(const std::vector<Lock>& locks, Processes& processes);

/// The pid of the nearest; 0: none.
std::uint32_t parent_that_holds(std::uint64_t waiter, const Ancestors& ancestors, Processes& processes);

}  // namespace holdfast::inspect
