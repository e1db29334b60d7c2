// Computes when an entry ends: at its exptime, or at a flush of the whole dictionary.
//
// The expiry word:
//
//   bits 63..20  time of CLOCK_MONOTONIC in ms at which the entry ends; 0: never
//   bits 19..0   flush epoch in which the entry was stored; in any other flush epoch, the entry counts as flushed
//
// The expiry is a single word, so that one store changes it. A value is gone once its exptime has passed, so its end is
// rounded down: to the millisecond or, for an exptime of ten seconds or more, to the last tick of the clock. A lease
// never ends early, so its end is rounded up. The end of a lease is compared with the system's clock. The end of a
// value is compared with the clock of the host's event loop, if the host has one.
//
// The end of a lease is counted from the exact clock. The only exception is a lease of ten seconds or more on the fast
// path. Such a lease counts from the coarse clock plus one second, which saves 24 ns of about 80. The kernel does not
// promise a limit for the lag of the coarse clock, so this second is an assumption. A margin of 0.05 s was too small by
// up to 0.2 s.
//
// If the host has an event loop, the end of a value is compared with the loop's own time, which does not advance while
// a handler runs. So a value ends exactly when a timer of the same length that was set in the same handler fires.
//
// The exptime of a value must also count from the loop's time. Otherwise, a handler that has been running for 10 ms
// would not find a value that it has just stored for 5 ms. As a consequence, a worker whose loop is late still finds a
// value during the loop's delay, as in ngx.shared. A loop is ignored if its time has not advanced for a minute, like
// the loop of a process that was forked from nginx.
//
// Thread safety: any thread may make any call at any time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "platform/platform.h"

namespace holdfast {

/// A pointer to a loop's time in milliseconds of CLOCK_MONOTONIC.
using LoopClock = const volatile std::uintptr_t*;

inline constinit std::atomic<LoopClock> followed_clock{nullptr};

/// The maximum lag of the coarse clock that is tolerated. The kernel states 4 ms. The largest lag seen was 16 ms, and
/// 246 ms in a virtual machine whose clock-keeping processor did not run.
inline constexpr std::uint64_t kCoarseLagMs = 1000;
/// The maximum time for which a loop's time may stop. If it stops for longer, or the loop no longer exists, as in a
/// forked child, the loop's time is ignored.
inline constexpr std::uint64_t kLoopLagMaxMs = 60'000;

/// Returns whether the word can be a loop's time, which may lag but is never ahead of CLOCK_MONOTONIC.
inline bool is_loop_clock(LoopClock clock) noexcept {
  return __atomic_load_n(clock, __ATOMIC_RELAXED) <= platform::monotonic_ns() / 1'000'000;
}

/// Sets the clock to follow. The default is null: no clock. REQUIRES: the word stays at its address until the process
/// ends.
inline void follow_clock(LoopClock clock) noexcept {
  followed_clock.store(clock, std::memory_order_release);  // pairs with loop_ms()
}

/// Returns the loop's time, or 0 if there is no clock to follow. Ignores a loop's time that is ahead of the clock, for
/// example because a clock was set.
inline std::uint64_t loop_ms() noexcept {
  const LoopClock clock = followed_clock.load(kAcquire);
  if (clock == nullptr) [[likely]]
    return 0;
  const std::uint64_t ms = __atomic_load_n(clock, __ATOMIC_RELAXED);
  const std::uint64_t latest = platform::coarse_monotonic_ns() / 1'000'000 + kCoarseLagMs;
  return latest - ms > kLoopLagMaxMs + kCoarseLagMs ? 0 : ms;  // if `ms` is ahead, the difference wraps
}

// --- the time in 32 bits: for words of shared memory, and for recording refusals ---

/// Returns the time in milliseconds. It repeats after 49 days, so compare times by their difference.
inline std::uint32_t short_now() noexcept {
  return static_cast<std::uint32_t>(platform::coarse_monotonic_ns() / 1'000'000);
}

/// A process that was refused memory does not ask again for this time, so that it does not ask a full file system at
/// each call. No benchmark covers this constant, because none runs on a full file system.
inline constexpr std::uint32_t kRefusedMs = 100;
/// Returns the time of a refusal that happens now. It is never 0, which means no refusal.
inline std::uint32_t refused_now() noexcept { return short_now() | 1; }

// --- ends ---

inline constexpr std::uint32_t kFlushBits = 20;
inline constexpr std::uint32_t kFlushMask = (std::uint32_t{1} << kFlushBits) - 1;
inline constexpr std::uint64_t kExpiryNever = 0;
/// The longest exptime in seconds. A longer exptime means never. The word can express 557 years after the boot.
inline constexpr double kLongest = 1e10;

/// An exptime of this many seconds or more counts from the last tick of the clock, which takes a quarter of the time to
/// read. The benchmark is "set with exptime, one number".
inline constexpr double kLongExptime = 10;

constexpr std::uint64_t expiry_word(std::uint64_t ms, std::uint32_t flush) noexcept {
  return ms << kFlushBits | (flush & kFlushMask);
}
constexpr std::uint64_t expiry_ms(std::uint64_t word) noexcept { return word >> kFlushBits; }

constexpr bool is_endless(double seconds) noexcept { return seconds == 0.0 || !(seconds <= kLongest); }

/// Converts seconds to nanoseconds. REQUIRES, here and below: `seconds` is not endless, not negative and not NaN.
constexpr std::uint64_t to_ns(double seconds) noexcept { return static_cast<std::uint64_t>(seconds * 1e9); }

/// Returns the time (ms) at which a lease of `seconds` from now ends. `now_ns` comes from the exact clock.
inline std::uint64_t end_of_lease(double seconds, std::uint64_t now_ns) noexcept {
  return is_endless(seconds) ? kExpiryNever : (now_ns + to_ns(seconds)) / 1'000'000 + 1;  // up: never early
}

inline std::uint64_t end_of_lease(double seconds) noexcept {
  return is_endless(seconds) ? kExpiryNever : end_of_lease(seconds, platform::monotonic_ns());
}

/// Returns the time (ms) from which a value's exptime counts if a rough time is enough: the loop's time or, for a long
/// exptime, the last tick of the system's clock; otherwise 0. Both times lag, so the value never outlives its exptime.
inline std::uint64_t rough_start_of_value(double seconds) noexcept {
  const std::uint64_t loop = loop_ms();
  return loop == 0 && seconds >= kLongExptime ? platform::coarse_monotonic_ms() : loop;
}

/// Returns the time (ms) at which a value that lives for `seconds` from now ends. If the exptime counts from a rough
/// start, it is rounded down to whole milliseconds, as a loop rounds its timers.
inline std::uint64_t end_of_value(double seconds) noexcept {
  if (is_endless(seconds)) return kExpiryNever;
  const std::uint64_t start = rough_start_of_value(seconds);
  if (start != 0) return start + static_cast<std::uint64_t>(static_cast<std::int64_t>(seconds * 1e3));
  const std::uint64_t end = (platform::monotonic_ns() + to_ns(seconds)) / 1'000'000;  // down: never late
  return std::max(end, kExpiryNever + 1);
}

/// Returns whether a lease that would have ended at `before_ms` now ends earlier, so that its waiters expect the wrong
/// end.
constexpr bool ends_earlier(std::uint64_t end_ms, std::uint64_t before_ms) noexcept {
  return end_ms != kExpiryNever && (before_ms == kExpiryNever || end_ms < before_ms);
}

/// Returns whether the time `ms` has passed. Reads the coarse clock, which is cheap, and the exact clock only if the
/// time is near.
inline bool time_passed(std::uint64_t ms) noexcept {
  const std::uint64_t coarse = platform::coarse_monotonic_ns() / 1'000'000;
  if (coarse >= ms) return true;
  if (ms - coarse > kCoarseLagMs) return false;
  return platform::monotonic_ns() / 1'000'000 >= ms;
}

/// Returns the current time (ms) of the clock with which the ends of values are compared.
inline std::uint64_t value_ms() noexcept {
  const std::uint64_t loop = loop_ms();
  return loop != 0 ? loop : platform::monotonic_ns() / 1'000'000;
}

/// Returns whether a value that ends at `ms` has ended.
inline bool value_passed(std::uint64_t ms) noexcept {
  const std::uint64_t loop = loop_ms();
  return loop != 0 ? loop >= ms : time_passed(ms);
}

/// Returns the expiry word with the earlier end: an entry's word, or the word of one of its holders. If the holder's
/// epoch differs from its entry's, the holder is flushed, because the entry's word was written later.
constexpr std::uint64_t earlier(std::uint64_t entry, std::uint64_t holder) noexcept {
  if ((entry & kFlushMask) != (holder & kFlushMask) || expiry_ms(entry) == kExpiryNever) return holder;
  return expiry_ms(holder) == kExpiryNever || entry < holder ? entry : holder;
}

constexpr bool is_flushed(std::uint64_t word, std::uint32_t flush) noexcept {
  return (word & kFlushMask) != (flush & kFlushMask);
}

/// Returns whether a lease with this word is still valid, in a dictionary at this flush epoch.
inline bool is_live(std::uint64_t word, std::uint32_t flush) noexcept {
  if (is_flushed(word, flush)) return false;
  const std::uint64_t ms = expiry_ms(word);
  return ms == kExpiryNever || !time_passed(ms);
}

/// Returns whether a value with this word is still valid.
inline bool is_live_value(std::uint64_t word, std::uint32_t flush) noexcept {
  if (is_flushed(word, flush)) return false;
  const std::uint64_t ms = expiry_ms(word);
  return ms == kExpiryNever || !value_passed(ms);
}

}  // namespace holdfast
