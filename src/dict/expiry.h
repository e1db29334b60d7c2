// When an entry ends: by its exptime, or by a flush of the whole dictionary.
//
// The expiry word:  bits 63..24  time of CLOCK_MONOTONIC in ms at which the entry is gone; 0: never
//                   bits 23..0   flush epoch it was stored under; it is gone when the dictionary's epoch is another
//
// One word, so that one store changes it. Never early, at most 5 ms late: the deadline comes from the exact clock.
// Whether it has come is judged by the coarse clock, which is cheap and behind by more than the resolution it states (8
// to 16 ms seen for 4), and by the exact one only when the deadline is near.
#pragma once

#include <cstdint>

#include "platform/platform.h"

namespace holdfast {

inline constexpr std::uint32_t kFlushMask = 0xFFFFFF;
inline constexpr std::uint64_t kExpiryNever = 0;

constexpr std::uint64_t expiry_word(std::uint64_t ms, std::uint32_t flush) noexcept {
  return ms << 24 | (flush & kFlushMask);
}
constexpr std::uint64_t expiry_ms(std::uint64_t word) noexcept { return word >> 24; }

/// The time (ms) at which something that lives `seconds` from now is gone. 0 seconds, and what is later than a word can
/// say (34 years), is never. REQUIRES: seconds is not negative and not NaN; `now_ns` is the exact clock's.
inline std::uint64_t expiry_after(double seconds, std::uint64_t now_ns) noexcept {
  if (seconds == 0.0) return kExpiryNever;
  constexpr double kLongest = 34.0 * 365 * 86400;
  if (!(seconds < kLongest)) return kExpiryNever;
  const std::uint64_t ms = (now_ns + static_cast<std::uint64_t>(seconds * 1e9)) / 1'000'000 + 1;  // up: never early
  return ms >> 40 == 0 ? ms : kExpiryNever;
}

inline std::uint64_t expiry_after(double seconds) noexcept {
  return seconds == 0.0 ? kExpiryNever : expiry_after(seconds, platform::monotonic_ns());
}

/// How far behind the coarse clock may be.
inline constexpr std::uint64_t kCoarseLagNs = 50'000'000;

/// Whether that time has come.
inline bool time_passed(std::uint64_t ms) noexcept {
  const std::uint64_t coarse = platform::coarse_monotonic_ns();
  if (coarse / 1'000'000 >= ms) return true;
  if (ms * 1'000'000 - coarse > kCoarseLagNs) return false;
  return platform::monotonic_ns() / 1'000'000 >= ms;
}

/// The end of a hold that belongs to an entry: whichever comes first. A hold of another epoch than its entry's is
/// flushed, as the entry's word is the later one.
constexpr std::uint64_t earlier(std::uint64_t entry, std::uint64_t hold) noexcept {
  if ((entry & kFlushMask) != (hold & kFlushMask) || expiry_ms(entry) == kExpiryNever) return hold;
  return expiry_ms(hold) == kExpiryNever || entry < hold ? entry : hold;
}

/// Whether an entry with this word still counts, in a dictionary at this flush epoch.
inline bool is_live(std::uint64_t word, std::uint32_t flush) noexcept {
  if ((word & kFlushMask) != (flush & kFlushMask)) return false;
  const std::uint64_t ms = expiry_ms(word);
  return ms == kExpiryNever || !time_passed(ms);
}

}  // namespace holdfast
