// The time in 32 bits: for words of shared memory, and for what a process remembers of a refusal.
#pragma once

#include <cstdint>

#include "platform/platform.h"

namespace holdfast {

/// Milliseconds. They repeat after 49 days: compare by difference.
inline std::uint32_t short_now() noexcept {
  return static_cast<std::uint32_t>(platform::coarse_monotonic_ns() / 1'000'000);
}

/// A process that was refused memory asks again after so long: a full file system must not be asked at each call.
inline constexpr std::uint32_t kRefusedMs = 100;
/// The time of a refusal. 0 is none.
inline std::uint32_t refused_now() noexcept { return short_now() | 1; }

}  // namespace holdfast
