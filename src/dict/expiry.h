// When an entry ends: by its exptime, or by a flush of the whole dictionary.
//
// The expiry word:  bits 63..20  time of CLOCK_MONOTONIC in ms at which the entry is gone; 0: never
//                   bits 19..0   flush epoch it was stored under; it is gone when the dictionary's epoch is another
//
// One word, so that one store changes it. When the exptime of a value has passed it is not there: its end is rounded
// down. A lease does not end before: its end is rounded up. What is held ends by the system's clock, values end by that
// of a loop where the host named one (dict/loop_clock.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "dict/loop_clock.h"
#include "platform/platform.h"

namespace holdfast {

inline constexpr std::uint32_t kFlushBits = 20;
inline constexpr std::uint32_t kFlushMask = (std::uint32_t{1} << kFlushBits) - 1;
inline constexpr std::uint64_t kExpiryNever = 0;
/// Seconds. What is to live for longer never ends. A word has room for 557 years after the boot.
inline constexpr double kLongest = 1e10;

constexpr std::uint64_t expiry_word(std::uint64_t ms, std::uint32_t flush) noexcept {
  return ms << kFlushBits | (flush & kFlushMask);
}
constexpr std::uint64_t expiry_ms(std::uint64_t word) noexcept { return word >> kFlushBits; }

constexpr bool is_endless(double seconds) noexcept { return seconds == 0.0 || !(seconds <= kLongest); }

/// REQUIRES: not endless, not negative and not NaN, as in what follows.
constexpr std::uint64_t to_ns(double seconds) noexcept { return static_cast<std::uint64_t>(seconds * 1e9); }

/// The time (ms) at which a lease of `seconds` from now is over. `now_ns` is the exact clock's.
inline std::uint64_t end_of_lease(double seconds, std::uint64_t now_ns) noexcept {
  return is_endless(seconds) ? kExpiryNever : (now_ns + to_ns(seconds)) / 1'000'000 + 1;  // up: never early
}

inline std::uint64_t end_of_lease(double seconds) noexcept {
  return is_endless(seconds) ? kExpiryNever : end_of_lease(seconds, platform::monotonic_ns());
}

/// The time (ms) at which a value that lives `seconds` from now is gone. By a loop's clock the milliseconds are whole
/// ones, as those that it sleeps.
inline std::uint64_t end_of_value(double seconds) noexcept {
  if (is_endless(seconds)) return kExpiryNever;
  const std::uint64_t loop = loop_ms();
  const std::uint64_t end = loop != 0 ? loop + static_cast<std::uint64_t>(seconds * 1e3)
                                      : (platform::monotonic_ns() + to_ns(seconds)) / 1'000'000;  // down: never late
  return std::max(end, kExpiryNever + 1);
}

/// Whether that time has come. By the coarse clock, which is cheap, and by the exact one when it is near.
inline bool time_passed(std::uint64_t ms) noexcept {
  const std::uint64_t coarse = platform::coarse_monotonic_ns() / 1'000'000;
  if (coarse >= ms) return true;
  if (ms - coarse > kCoarseLagMs) return false;
  return platform::monotonic_ns() / 1'000'000 >= ms;
}

/// The time (ms) by which values end.
inline std::uint64_t value_ms() noexcept {
  const std::uint64_t loop = loop_ms();
  return loop != 0 ? loop : platform::monotonic_ns() / 1'000'000;
}

/// The same for the end of a value.
inline bool value_passed(std::uint64_t ms) noexcept {
  const std::uint64_t loop = loop_ms();
  return loop != 0 ? loop >= ms : time_passed(ms);
}

/// The end of a hold that belongs to an entry: whichever comes first. A hold of another epoch than its entry's is
/// flushed, as the entry's word is the later one.
constexpr std::uint64_t earlier(std::uint64_t entry, std::uint64_t hold) noexcept {
  if ((entry & kFlushMask) != (hold & kFlushMask) || expiry_ms(entry) == kExpiryNever) return hold;
  return expiry_ms(hold) == kExpiryNever || entry < hold ? entry : hold;
}

constexpr bool is_flushed(std::uint64_t word, std::uint32_t flush) noexcept {
  return (word & kFlushMask) != (flush & kFlushMask);
}

/// Whether what is held with this word still counts, in a dictionary at this flush epoch.
inline bool is_live(std::uint64_t word, std::uint32_t flush) noexcept {
  if (is_flushed(word, flush)) return false;
  const std::uint64_t ms = expiry_ms(word);
  return ms == kExpiryNever || !time_passed(ms);
}

/// The same of a value.
inline bool is_live_value(std::uint64_t word, std::uint32_t flush) noexcept {
  if (is_flushed(word, flush)) return false;
  const std::uint64_t ms = expiry_ms(word);
  return ms == kExpiryNever || !value_passed(ms);
}

}  // namespace holdfast
