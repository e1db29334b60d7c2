// Task ids: the numbers by which a host tells its tasks apart. A task is what holds something or waits: a coroutine, a
// light thread or a task of a loop. What the numbers mean is up to the host; only the search for deadlocks uses them.
//
// The lower 20 bits tell the tasks of one Lua state apart; all 20 of them 0: the Lua state as a whole.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint32_t kNoTask = 0;  // not known
inline constexpr std::uint32_t kTaskBits = 20;

/// What a waiting task may hold. everything: all that its Lua state holds, as nothing else of that runs while it waits.
enum class HoldsLocks { nothing = 0, something = 1, everything = 2 };

/// The task id that stands for the whole Lua state.
constexpr std::uint32_t whole_state(std::uint32_t task) noexcept { return task >> kTaskBits << kTaskBits; }

/// Gives a Lua state a range of task ids that no other of this process has. Returns the id that stands for the whole
/// range; kNoTask after 4095 ranges.
std::uint32_t new_task_ids() noexcept;

}  // namespace holdfast
