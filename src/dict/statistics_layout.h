// What lies behind the shards of a dictionary: counts of how long locks and permits were waited for and held. Nothing
// decides by them; any word may be wrong. docs/format.md describes the same byte by byte; change both together.
//
// The file is a hole here until something is counted. A word of the header page says which units of 4096 bytes were
// ever reserved (DictionaryHeader::counted_units); the others count as zero, and are not touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/histogram.h"

namespace holdfast {

/// What can be held.
enum class HeldKind : std::uint32_t { lock = 0, rwlock = 1, semaphore = 2 };
inline constexpr std::uint32_t kHeldKinds = 3;

enum class TimeKind : std::uint32_t { waited = 0, held = 1 };
inline constexpr std::uint32_t kTimeKinds = 2;

struct HistogramFields {
  Word64 sum;  // ns, of all times together
  Word64 max;  // ns
  std::array<Word64, 6> spare;
  std::array<Word64, kBuckets> counts;
};
static_assert(sizeof(HistogramFields) == 5824);

/// Bytes of a key that are kept.
inline constexpr std::uint32_t kContendedKeyMax = 72;

/// What there was to wait for at one key.
struct ContendedFields {
  Word64 hash;       // of the key; 0: not in use
  Word64 weight;     // never less than what was counted since the record has this key
  Word64 waits;      // the following four: since the record has this key
  Word64 wait_time;  // ns
  Word64 timeouts;
  Word64 refused;
  Word32 shape;  // length of the key (low 16 bits), HeldKind (next 8)
  Word32 check;  // of length and key
  std::array<Word64, kContendedKeyMax / 8> key;
};
static_assert(sizeof(ContendedFields) == 128);

/// A key may have one of the records of its set.
inline constexpr std::uint32_t kContendedSets = 16;
inline constexpr std::uint32_t kContendedPerSet = 16;

struct StatisticsFields {
  std::array<HistogramFields, kHeldKinds * kTimeKinds> histograms;  // by HeldKind, of each by TimeKind
  alignas(4096) std::array<std::array<ContendedFields, kContendedPerSet>, kContendedSets> contended;
};
inline constexpr std::uint32_t kCountedUnit = 4096;
inline constexpr std::uint64_t kStatisticsBytes = sizeof(StatisticsFields);
static_assert(kStatisticsBytes == 17 * kCountedUnit && offsetof(StatisticsFields, contended) == 9 * kCountedUnit);

/// The word of a grant that says since when it is held: time of CLOCK_MONOTONIC in ns, of which the lower four bits say
/// how the hold counts: with none of them not at all.
struct Since {
  std::uint64_t bits;

  static constexpr std::uint64_t kOnce = 1;    // once
  static constexpr std::uint64_t kForAll = 2;  // kDrawnOf times
  static constexpr std::uint64_t kLong = 4;    // once if it is long, whatever the other bits say
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

/// Of so many grants that come in quick succession, one is drawn to be measured, and counts for all.
inline constexpr std::uint32_t kDrawnOf = 256;

}  // namespace holdfast
