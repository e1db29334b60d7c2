// Makes allocations of this process and of its forked children fail on demand: all allocations of holdfast, of the C++
// runtime in it, and of the C library itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::faults {

/// Says which allocations fail. The plan is in memory that the processes of a test share.
struct AllocationPlan {
  std::uint64_t first;  // number of the allocation that fails, counted from 1, or 0
  bool from_then_on;    // whether all later allocations fail, too
  std::atomic<std::uint64_t> all;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> bytes;  // size of the first failed allocation
};

/// Starts to count allocations and to let them fail as the plan says. A null pointer stops this.
void follow(AllocationPlan* plan) noexcept;

}  // namespace holdfast::faults
