// Task ids are the numbers by which a host distinguishes its tasks. A task is a coroutine, a light thread, or an event
// loop's task, which holds something or waits. The host decides what the numbers mean; only the search for deadlocks
// uses them.
//
// The lower 20 bits distinguish the tasks of one Lua state. If all 20 bits are 0, the id stands for the Lua state as a
// whole.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint32_t kNoTask = 0;  // unknown
inline constexpr std::uint32_t kTaskBits = 20;

/// Says what a waiting task may hold. `everything` means everything that its Lua state holds, because no other code in
/// that state runs while the task waits.
enum class HoldsLocks { nothing = 0, something = 1, everything = 2 };

/// Returns the task id of the whole Lua state.
constexpr std::uint32_t whole_state(std::uint32_t task) noexcept { return task >> kTaskBits << kTaskBits; }

/// Reserves a range of task ids that no other Lua state of this process uses. Returns the id of the whole range, or
/// kNoTask after 4095 ranges.
std::uint32_t new_task_ids() noexcept;

}  // namespace holdfast
