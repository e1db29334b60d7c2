// Which process waits for which, as trees: below each lock its waiters, below each of these the locks that its process
// holds and others wait for. A command waits as well if one that it started waits (inspect/ancestors.h).
//
// Holders and waiters are processes here. One of many tasks may wait in one task and hold in another, so that a branch
// is a reason to look closer, and no proof. What the tasks of one process do to each other is no circle.
//
// There is at most one line for each lock, and two for each waiter: what a process holds is shown below the first of
// its waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast.h"
#include "inspect/ancestors.h"
#include "inspect/locks.h"

namespace holdfast::inspect {

struct WaitLine {
  /// circle: below a waiter, a lock that stands further up, and is held by it or by what started it. left_out: waiters
  /// that are not shown.
  enum class What { lock, waiter, circle, left_out };

  What what = What::lock;
  std::size_t depth = 0;
  const Lock* lock = nullptr;               // of a waiter: that which it waits for
  const holdfast_waiter* waiter = nullptr;  // of a circle: the one above
  std::uint64_t left_out = 0;
  bool has_circle = false;      // among what is left out
  bool is_of_commands = false;  // a circle in which each waits for the end of a child that waits
  std::uint64_t more = 0;       // bit i: further down is another line of depth i, below the same line

  bool has_more(std::size_t at) const noexcept { return (more >> at & 1) != 0; }

  /// Deeper ones are left out.
  static constexpr std::size_t kDeepest = 40;
  static constexpr std::size_t kMostLines = 20000;
};

/// All trees, line by line: those of locks of which no holder waits, then what is left, which are circles. `locks` are
/// those that are waited for; they stay in place as long as the lines are used.
std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks, const Ancestors& ancestors);

}  // namespace holdfast::inspect
