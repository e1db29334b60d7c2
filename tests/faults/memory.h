// Makes allocations of this process, and of its forked children, fail on demand. All of them go through here: those of
// the library, of the C++ runtime in it, and of the C library itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::faults {

/// In memory that the processes of a test share.
struct AllocationPlan {
  std::uint64_t first;  // this one fails (1: the first that is counted); 0: none
  bool from_then_on;    // and all later ones
  std::atomic<std::uint64_t> all;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> bytes;  // of the first that failed
};

/// From now on allocations are counted and fail as the plan says; null: no longer.
void follow(AllocationPlan* plan) noexcept;

}  // namespace holdfast::faults
