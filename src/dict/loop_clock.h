// The clock by which values end, where the host has a loop: the loop's own time, which stands still while a handler
// runs, so that a value ends exactly when a timer of the same length that was set in the same handler fires.
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

/// How far behind the coarse clock may be: by more than the resolution it states (8 to 16 ms seen for 4).
inline constexpr std::uint64_t kCoarseLagMs = 50;
/// A loop that stood still for longer, or has gone, as in a forked child, is not followed.
inline constexpr std::uint64_t kLoopLagMaxMs = 60'000;

/// False where it is of another kind: it may be behind, but was never ahead.
inline bool is_loop_clock(LoopClock clock) noexcept {
  return __atomic_load_n(clock, __ATOMIC_RELAXED) <= platform::monotonic_ns() / 1'000'000;
}

/// Null: none, as at the beginning. REQUIRES: the word stays where it is as long as the process lives.
inline void follow_clock(LoopClock clock) noexcept {
  followed_clock.store(clock, std::memory_order_release);  // pairs with loop_ms(): the word was written before
}

/// The loop's time; 0 if there is none to be followed. One that is ahead, as when it was set, is none of this kind.
inline std::uint64_t loop_ms() noexcept {
  const LoopClock clock = followed_clock.load(kAcquire);
  if (clock == nullptr) [[likely]]
    return 0;
  const std::uint64_t ms = __atomic_load_n(clock, __ATOMIC_RELAXED);
  const std::uint64_t latest = platform::coarse_monotonic_ns() / 1'000'000 + kCoarseLagMs;
  return latest - ms > kLoopLagMaxMs + kCoarseLagMs ? 0 : ms;  // ahead: wraps
}

}  // namespace holdfast
