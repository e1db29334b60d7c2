// Makes allocations in this process and in its forked children fail on demand: those of holdfast, of the C++ runtime in
// it, and of the C library itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::faults {

/// States which allocations fail. The plan is in memory that the processes of a test share.
struct AllocationPlan {
  std::uint64_t first;  // number of the allocation that fails, counted from 1; 0 if none
  bool from_then_on;    // whether all later allocations also fail
  std::atomic<std::uint64_t> all;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> bytes;  // size of the first failed allocation
};

/// Starts to count allocations, and to make them fail as the plan states. Stops if the argument is null.
void follow(AllocationPlan* plan) noexcept;

}  // namespace holdfast::faults
