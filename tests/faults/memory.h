// Makes allocations of this process and of its forked children fail on demand. This covers all allocations of the
// library, of the C++ runtime in it, and of the C library itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::faults {

/// Located in memory that the processes of a test share.
struct AllocationPlan {
  std::uint64_t first;  // the allocation that fails (1: the first counted one); 0: none
  bool from_then_on;    // whether all later allocations fail too
  std::atomic<std::uint64_t> all;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> bytes;  // size of the first failed allocation
};

/// Starts to count allocations and to let them fail as the plan says; null stops this.
void follow(AllocationPlan* plan) noexcept;

}  // namespace holdfast::faults
