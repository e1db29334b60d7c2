// Finds rings of waits: processes that cannot continue because each waits for the next one.
//
// A command waits for the end of a command that it started, so a ring of such waits lasts until one of the commands is
// ended. Any other process may have other tasks that continue, so its wait counts only if the wait is long.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/ancestors.h"
#include "inspect/locks.h"

namespace holdfast::inspect {

/// A process that waits, or whose child waits. The process in the next link holds the lock.
struct RingLink {
  std::uint64_t owner = 0;
  const holdfast_waiter* waiter = nullptr;
  const Lock* lock = nullptr;

  bool is_in_child() const noexcept { return waiter->owner != owner; }
};
/// The last link's process waits for the first link's process.
using Ring = std::vector<RingLink>;

/// Returns the rings. No process is in two rings. A wait of `long_wait` seconds or more is long. The rings point into
/// `locks`.
std::vector<Ring> find_rings(const std::vector<Lock>& locks, const Ancestors& ancestors, double long_wait);

}  // namespace holdfast::inspect
