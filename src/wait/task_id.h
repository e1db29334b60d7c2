// Which coroutine of a process took a lock, or waits for one: a number that its host gives it, of any meaning. Only the
// search for deadlocks asks for it.
//
// The lower 20 bits tell the coroutines of one Lua state apart; all 20 of them 0 means the Lua state as a whole.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint32_t kNoTask = 0;  // not told
inline constexpr std::uint32_t kTaskBits = 20;

/// What a task that waits may hold. everything: while it waits, nothing else of its Lua state runs.
enum class HoldsLocks { nothing = 0, something = 1, everything = 2 };

/// The task that stands for all of its Lua state.
constexpr std::uint32_t whole_state(std::uint32_t task) noexcept { return task >> kTaskBits << kTaskBits; }

/// A range of tasks that nobody else of this process has, named by the one that stands for all of it; kNoTask after
/// 4095 of them.
std::uint32_t new_task_ids() noexcept;

}  // namespace holdfast
