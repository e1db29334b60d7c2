// Which process waits for which, as trees: below each lock its waiters, below each of these the locks that its process
// holds and others wait for.
//
// Holders and waiters are processes here. One of many tasks may wait in one task and hold in another, so that a branch
// is a reason to look closer, and no proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast.h"
#include "inspect/locks.h"

namespace holdfast::inspect {

/// A line of a tree: a lock, or a waiter of the lock above it.
struct WaitLine {
  const Lock* lock = nullptr;
  const holdfast_waiter* waiter = nullptr;  // null: the line is the lock
  std::size_t depth = 0;
  std::vector<bool> more;  // for each depth below the first: whether there is another line of it further down
  bool is_cycle = false;   // the lock stands further up: its waiters wait in a circle
};

/// All trees, line by line: those of locks of which no holder waits, then what is left, which are circles. `locks` are
/// those that are waited for; they stay in place as long as the lines are used.
std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks);

}  // namespace holdfast::inspect
