// Which coroutine of a process took a lock, or waits for one: a number that its host gives it, of any meaning. Only the
// search for deadlocks asks for it.
//
// The lower 20 bits tell the coroutines of one Lua state apart; all 20 of them 0 means the Lua state as a whole.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint32_t kNoAgent = 0;  // not told
inline constexpr std::uint32_t kAgentBits = 20;

/// What an agent that waits may hold. everything: while it waits, nothing else of its Lua state runs.
enum class Stake { nothing = 0, something = 1, everything = 2 };

/// The agent that stands for all of its Lua state.
constexpr std::uint32_t whole_state(std::uint32_t agent) noexcept { return agent >> kAgentBits << kAgentBits; }

/// A range of agents that nobody else of this process has, named by the one that stands for all of it; kNoAgent after
/// 4095 of them.
std::uint32_t new_agents() noexcept;

}  // namespace holdfast
