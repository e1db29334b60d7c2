// Buckets of a log-linear histogram of times: 16 of the same width for each doubling. So a bucket is at most a 16th
// wider than its beginning is long, and its middle is at most 1/32 off.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace holdfast {

inline constexpr std::uint32_t kBucketsPerDoubling = 16;
inline constexpr std::uint32_t kBucketBits = 4;
static_assert(1U << kBucketBits == kBucketsPerDoubling);

/// Times below this have a bucket for each nanosecond.
inline constexpr std::uint64_t kExactNs = std::uint64_t{2} * kBucketsPerDoubling;
/// Longer times, from about 3 days on, all count in the last bucket.
inline constexpr std::uint32_t kDoublings = 43;
inline constexpr std::uint32_t kBuckets = static_cast<std::uint32_t>(kExactNs) + kDoublings * kBucketsPerDoubling;

constexpr std::uint32_t bucket_of(std::uint64_t ns) noexcept {
  if (ns < kExactNs) return static_cast<std::uint32_t>(ns);
  const auto doubling = static_cast<std::uint32_t>(std::bit_width(ns)) - 1;  // at least kBucketBits + 1
  const auto within = static_cast<std::uint32_t>(ns >> (doubling - kBucketBits)) & (kBucketsPerDoubling - 1);
  const std::uint32_t first = static_cast<std::uint32_t>(kExactNs) + (doubling - kBucketBits - 1) * kBucketsPerDoubling;
  return std::min(first + within, kBuckets - 1);
}

/// The first nanosecond behind the bucket. REQUIRES: it is not the last one, which has no end.
constexpr std::uint64_t end_of_bucket(std::uint32_t bucket) noexcept {
  if (bucket < kExactNs) return bucket + 1;
  const std::uint32_t doubling = (bucket - static_cast<std::uint32_t>(kExactNs)) / kBucketsPerDoubling + 1;
  const std::uint64_t within = bucket % kBucketsPerDoubling;
  return (kBucketsPerDoubling + within + 1) << doubling;
}

}  // namespace holdfast
