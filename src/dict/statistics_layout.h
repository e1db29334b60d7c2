// The layout of a dictionary's statistics, which follow its shards. They count how long locks and permits were waited
// for and held. Nothing depends on these counts, so any word may be wrong. docs/format.md has the offsets of the parts;
// change both files together.
//
// In a dictionary's file, the statistics are a hole until something is counted. A word of the header page says which
// units of 4096 bytes were ever reserved (DictionaryHeader::counted_units). The other units count as zero, and are not
// touched.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

// The buckets of a log-linear histogram of times: 16 of the same width for each doubling. So the width of a bucket is
// at most 1/16 of its lower bound, and its middle differs from any time in it by at most 1/32.

inline constexpr std::uint32_t kBucketsPerDoubling = 16;
inline constexpr std::uint32_t kBucketBits = 4;
static_assert(1U << kBucketBits == kBucketsPerDoubling);

/// Times below this number have a bucket for each nanosecond.
inline constexpr std::uint64_t kExactNs = std::uint64_t{2} * kBucketsPerDoubling;
/// All longer times, from about 3 days on, count in the last bucket.
inline constexpr std::uint32_t kDoublings = 43;
inline constexpr std::uint32_t kBuckets = static_cast<std::uint32_t>(kExactNs) + kDoublings * kBucketsPerDoubling;

constexpr std::uint32_t bucket_of(std::uint64_t ns) noexcept {
  if (ns < kExactNs) return static_cast<std::uint32_t>(ns);
  const auto doubling = static_cast<std::uint32_t>(std::bit_width(ns)) - 1;  // at least kBucketBits + 1
  const auto within = static_cast<std::uint32_t>(ns >> (doubling - kBucketBits)) & (kBucketsPerDoubling - 1);
  const std::uint32_t first = static_cast<std::uint32_t>(kExactNs) + (doubling - kBucketBits - 1) * kBucketsPerDoubling;
  return std::min(first + within, kBuckets - 1);
}

/// Returns the first nanosecond after the bucket. REQUIRES: the bucket is not the last, which has no end.
constexpr std::uint64_t end_of_bucket(std::uint32_t bucket) noexcept {
  if (bucket < kExactNs) return bucket + 1;
  const std::uint32_t doubling = (bucket - static_cast<std::uint32_t>(kExactNs)) / kBucketsPerDoubling + 1;
  const std::uint64_t within = bucket % kBucketsPerDoubling;
  return (kBucketsPerDoubling + within + 1) << doubling;
}

/// The kinds of things that can be held.
enum class HeldKind : std::uint32_t { lock = 0, rwlock = 1, semaphore = 2 };
inline constexpr std::uint32_t kHeldKinds = 3;

enum class TimeKind : std::uint32_t { waited = 0, held = 1 };
inline constexpr std::uint32_t kTimeKinds = 2;

struct HistogramFields {
  Word64 sum;  // ns, of all times
  Word64 max;  // ns
  std::array<Word64, 6> spare;
  std::array<Word64, kBuckets> counts;
};
static_assert(sizeof(HistogramFields) == 5824);

/// The maximum number of bytes of a key that are stored.
inline constexpr std::uint32_t kContendedKeyMax = 72;

/// The contention of one key. A hash of 0 is stored as 1. `check` is the upper half of a number. The number begins as
/// the length of the key, and becomes (number ^ word ^ number >> 32) * 0x9E3779B97F4A7C15 for each of the 9 words of
/// `key`. A key without a record takes over the record with the least weight in its set: it replaces the hash by
/// compare-and-swap, and keeps the weight.
struct ContendedFields {
  Word64 hash;       // of the key; 0: not in use
  Word64 weight;     // µs waited + waits + refusals, for this key and for earlier keys of the record
  Word64 waits;      // this and the next three words count since the record got this key
  Word64 wait_time;  // ns
  Word64 timeouts;   // waits that ended without the lock or permits
  Word64 refused;
  Word32 shape;  // length of the key (low 16 bits), HeldKind of the last request (next 8)
  Word32 check;  // the check of the length and the key, as described above
  std::array<Word64, kContendedKeyMax / 8> key;
};
static_assert(sizeof(ContendedFields) == 128);

/// The number of sets of records. A key may use any record of its set.
inline constexpr std::uint32_t kContendedSets = 16;
inline constexpr std::uint32_t kContendedPerSet = 16;

struct StatisticsFields {
  std::array<HistogramFields, kHeldKinds * kTimeKinds> histograms;  // by HeldKind, and for each by TimeKind
  alignas(4096) std::array<std::array<ContendedFields, kContendedPerSet>, kContendedSets> contended;
};
inline constexpr std::uint32_t kCountedUnit = 4096;
inline constexpr std::uint64_t kStatisticsBytes = sizeof(StatisticsFields);
static_assert(kStatisticsBytes == 17 * kCountedUnit && offsetof(StatisticsFields, contended) == 9 * kCountedUnit);

/// The word of a grant that says when the hold began, as a time of CLOCK_MONOTONIC in ns. Its lower four bits say how
/// the hold counts. If none of them is set, the hold does not count.
struct Since {
  std::uint64_t bits;

  static constexpr std::uint64_t kOnce = 1;    // counts once
  static constexpr std::uint64_t kForAll = 2;  // counts kDrawnOf times
  static constexpr std::uint64_t kLong = 4;    // counts once if it is long, whatever the other bits say
  static constexpr std::uint64_t kExact = 8;   // the time is not from the coarse clock
  static constexpr std::uint64_t kMeasured = kOnce | kForAll;
  static constexpr std::uint64_t kCounts = kMeasured | kLong;

  static constexpr std::uint64_t kAll = kCounts | kExact;

  static constexpr Since of_coarse(std::uint64_t ns) noexcept { return {ns & ~kAll}; }
  static constexpr Since of(std::uint64_t ns) noexcept { return {of_coarse(ns).bits | kExact}; }
  constexpr bool is_measured() const noexcept { return (bits & kMeasured) != 0; }
  constexpr bool is_coarse() const noexcept { return (bits & kExact) == 0; }
  constexpr bool counts() const noexcept { return (bits & kCounts) != 0; }
  constexpr std::uint64_t ns() const noexcept { return bits & ~kAll; }
  constexpr std::uint64_t ms() const noexcept { return bits / 1'000'000; }
};

/// If grants follow each other quickly, one grant in this many is drawn to be measured, and counts for all of them. The
/// benchmark "lock + unlock, same object" measures what this costs.
inline constexpr std::uint32_t kDrawnOf = 256;

}  // namespace holdfast
