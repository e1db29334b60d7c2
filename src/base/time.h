// Units of time. All times are CLOCK_MONOTONIC, in ns or ms as the name says.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
/// A time, in ns or ms, that never comes.
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace holdfast
