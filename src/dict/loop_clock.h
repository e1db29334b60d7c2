// The clock by which values end if the host has an event loop: the loop's own time. It stands still while a handler
// runs, so a value ends exactly when a timer of the same length that was set in the same handler fires.
//
// If values counted from the loop's time and ended by the clock, a handler that has run for 10 ms would not find the
// value that it has just stored for 5. In exchange, a worker that is behind finds a value for as long as it is behind,
// as in ngx.shared. A loop that has stood still for a minute, such as in a process forked off nginx, is not followed.
//
// Thread safety: any thread, any time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "platform/platform.h"

namespace holdfast {

/// Milliseconds of CLOCK_MONOTONIC.
using LoopClock = const volatile std::uintptr_t*;

inline constinit std::atomic<LoopClock> followed_clock{nullptr};

/// The most that the coarse clock may lag. It states 4 ms and was seen 16 ms behind, and 246 in a virtual machine, of
/// which the processor that keeps it did not run.
inline constexpr std::uint64_t kCoarseLagMs = 1000;
/// Do not follow a loop that stood still for longer than this, or that is gone, as in a forked child.
inline constexpr std::uint64_t kLoopLagMaxMs = 60'000;

/// Whether the word is the time of a loop. A loop's time may lag, but is never ahead of CLOCK_MONOTONIC.
inline bool is_loop_clock(LoopClock clock) noexcept {
  return __atomic_load_n(clock, __ATOMIC_RELAXED) <= platform::monotonic_ns() / 1'000'000;
}

/// Null: follow no clock, as at the beginning. REQUIRES: the word stays at its address for the life of the process.
inline void follow_clock(LoopClock clock) noexcept {
  followed_clock.store(clock, std::memory_order_release);  // pairs with loop_ms(): the word was written before
}

/// The loop's time; 0 if there is none to follow. A time that is ahead, as of a clock that was set, is not a loop's and
/// is not followed.
inline std::uint64_t loop_ms() noexcept {
  const LoopClock clock = followed_clock.load(kAcquire);
  if (clock == nullptr) [[likely]]
    return 0;
  const std::uint64_t ms = __atomic_load_n(clock, __ATOMIC_RELAXED);
  const std::uint64_t latest = platform::coarse_monotonic_ns() / 1'000'000 + kCoarseLagMs;
  return latest - ms > kLoopLagMaxMs + kCoarseLagMs ? 0 : ms;  // ahead: wraps
}

}  // namespace holdfast
