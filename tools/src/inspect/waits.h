// Shows, as trees, which process waits for which. Below each lock are its waiters; below each waiter are the locks that
// its process holds and that others wait for. A command also waits if a command that it started waits
// (inspect/ancestors.h). A ring of waits (inspect/rings.h) is one tree with its locks side by side, so its depth does
// not grow with its length.
//
// Holders and waiters are processes here. A process may wait in one task and hold a lock in another, so a branch is
// only a hint. Waits between tasks of the same process are not circles.
//
// There is at most one line per lock and per ring, and two per waiter. The locks of a process are shown below its first
// wait. Waiters of the same kind with nothing below them share a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast.h"
#include "inspect/ancestors.h"
#include "inspect/locks.h"

namespace holdfast::inspect {

struct WaitLine {
  /// circle: a lock that is shown below a waiter because the waiter or its ancestor holds it, and that also appears
  /// further up. left_out: waiters that are not shown.
  enum class What { ring, lock, waiter, circle, left_out };

  What what = What::lock;
  std::size_t depth = 0;
  const Lock* lock = nullptr;                      // for a waiter: the lock that it waits for
  const holdfast_waiter* waiter = nullptr;         // for a circle: the waiter above
  std::uint64_t count = 0;                         // of the processes in a ring, or of the waiters that are left out
  bool is_certain = false;                         // a ring in which each waits for the end of a child that waits
  bool has_circle = false;                         // there is a circle among the lines left out
  std::uint64_t more = 0;                          // bit i: another line of depth i follows below the same line
  std::vector<const holdfast_waiter*> equal = {};  // further waiters like this one

  bool has_more(std::size_t at) const noexcept { return (more >> at & 1) != 0; }

  /// The greatest depth; deeper lines are left out.
  static constexpr std::size_t kDeepest = 40;
  static constexpr std::size_t kMostLines = 20000;
};

/// Returns a text that is the same for waiters that may share a line.
using KindOfWaiter = std::function<std::string(const holdfast_waiter&)>;

/// Returns all trees, line by line: first the rings, then locks whose holders do not wait, then the rest, which are
/// circles. `locks` are the locks with waiters; the lines point into them.
std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks, const Ancestors& ancestors,
                                     const KindOfWaiter& kind_of);

}  // namespace holdfast::inspect
