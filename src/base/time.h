// Units of time. All times are CLOCK_MONOTONIC, in nanoseconds (_ns) or milliseconds (_ms).
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
/// A time in the infinite future, in ns or ms.
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace holdfast
