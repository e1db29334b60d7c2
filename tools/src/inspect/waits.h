// Builds trees that show which process waits for which. Below each lock are its waiters. Below each waiter are the
// locks that its process holds and that other processes wait for. A command also waits if a command that it started
// waits (inspect/ancestors.h). A ring of waits (inspect/rings.h) is one tree with the ring's locks side by side, so a
// longer ring does not make the tree deeper.
//
// Here, holders and waiters are processes. A process may wait in one task and hold a lock in another, so a branch is
// only a hint. Waits between tasks of the same process are not circles.
//
// There is at most one line for each lock and each ring, and at most two lines for each waiter. The locks of a process
// are shown below its first wait. Waiters of the same kind share a line if nothing is below them.
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
  /// circle: a lock that the waiter above it (or an ancestor of this waiter) holds, but which also appears further up
  /// in the tree. left_out: waiters that are not shown.
  enum class What { ring, lock, waiter, circle, left_out };

  What what = What::lock;
  std::size_t depth = 0;
  const Lock* lock = nullptr;                      // for a waiter: the lock that it waits for
  const holdfast_waiter* waiter = nullptr;         // for a circle: the waiter above
  std::uint64_t count = 0;                         // processes in a ring, or waiters that are left out
  bool is_certain = false;                         // in this ring, each process waits for a child that waits
  bool has_circle = false;                         // there is a circle among the lines that are left out
  std::uint64_t more = 0;                          // bit i: another line of depth i follows below the same line
  std::vector<const holdfast_waiter*> equal = {};  // further waiters that share this line

  bool has_more(std::size_t at) const noexcept { return (more >> at & 1) != 0; }

  /// The maximum depth; deeper lines are left out.
  static constexpr std::size_t kDeepest = 40;
  static constexpr std::size_t kMostLines = 20000;
};

/// Returns a text that is the same for waiters that may share a line.
using KindOfWaiter = std::function<std::string(const holdfast_waiter&)>;

/// Returns the lines of all trees: first the rings, then locks whose holders do not wait, and then the remaining locks,
/// which are in circles. `locks` are the locks with waiters; the lines point into them.
std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks, const Ancestors& ancestors,
                                     const KindOfWaiter& kind_of);

}  // namespace holdfast::inspect
