// Counts how long locks and permits were waited for and held, and which keys had contention, for people.
//
// Waits are slow anyway, so each is counted by a few atomic operations; of simultaneous refusals, one may count. A lock
// without contention is taken and released in less time than two clock reads, and without a store that other processes
// would have to wait for. So holds count in three ways. When a grant begins, it is known which of them apply:
//
// - A grant is measured, and counts once, if its process has measured none of the dictionary in this way for 4 ms.
// - One in 256 of the others is drawn, is measured, and counts 256 times.
// - Long ones count once, drawn or not, by reading the coarse clock at their end: a hold is long if that clock has
//   ticked twice since it began. Each end is checked. Only a process that makes millions of grants in a second limits
//   the checks to about a hundredth of its time.
//
// So each grant counts once on average, whatever the order of short and long holds, and each long one exactly once.
//
// The counts follow the shards in the dictionary's file, in 68 KB that are a hole until something is counted. So they
// share the life of the file: its removal, world, adoption, permissions, and its mapping in forks. Rejected: histograms
// for each process (35 KB each, and lost with the process); reading the coarse clock at each release (5 ns of some 35).
//
// Keys are found by space saving: if there is no room for another key, the key with the least weight in its set gives
// up its record. The new key continues from that weight, so that it is not the next to go.
//
// Thread and process safety: all calls, from any thread. Any call may be killed at any instruction: then a count is off
// by one, or a record has the text of another key, which its next user notices.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/atomic.h"
#include "dict/statistics_layout.h"

namespace holdfast {

struct Histogram {
  std::uint64_t count = 0;
  std::uint64_t sum_ns = 0;
  std::uint64_t max_ns = 0;
  std::array<std::uint64_t, kBuckets> counts{};
};

struct Contended {
  std::uint64_t waits = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t refused = 0;
  std::uint64_t wait_ns = 0;
  HeldKind kind = HeldKind::lock;
  std::uint32_t key_length = 0;  // of the whole key
  std::array<char, kContendedKeyMax> key{};
};

class Statistics {
 public:
  /// `base`: kStatisticsBytes, mapped. `units`: DictionaryHeader::counted_units.
  Statistics(std::byte* base, Word32& units) noexcept;

  // --- holds ---

  /// Returns the word for a grant made now, at a time of either clock. `number`: its fencing number, or the lower half
  /// of it.
  Since since(Since now, std::uint64_t number) noexcept {
    const std::uint64_t last = measured_.load(kRelaxed);
    const auto rested = static_cast<std::int64_t>(now.bits - last);
    if (rested < kRestNs && !is_drawn(static_cast<std::uint32_t>(number))) [[likely]]
      return {now.bits | (last & Since::kLong)};
    return measured(now, rested >= kRestNs);
  }
  /// For a grant that was waited for: it counts.
  static Since since_wait(std::uint64_t now_ns) noexcept { return {Since::of(now_ns).bits | Since::kOnce}; }
  /// REQUIRES, from here on: the thread holds no shmtx.

  /// Counts a hold that ends now, if the hold has to be counted.
  void count_hold(HeldKind kind, Since since) noexcept {
    if (since.counts()) [[unlikely]]
      count_end(kind, since);
  }

  // --- waits ---

  struct Wait {
    HeldKind kind;
    std::uint64_t ns;
    bool in_vain;
  };
  void count_wait(std::string_view key, std::uint64_t hash, const Wait& wait) noexcept;
  void count_refusal(std::string_view key, std::uint64_t hash, HeldKind kind) noexcept;

  // --- for people ---

  void read(HeldKind kind, TimeKind time, Histogram& histogram) noexcept;
  /// Writes the keys with the most contention, worst first. Returns how many.
  std::size_t read(std::span<Contended> worst) noexcept;

 private:
  /// How long a process measures no other hold, except drawn and long ones. Benchmark of these two: lock + unlock, same
  /// object.
  static constexpr std::int64_t kRestNs = 4'000'000;
  /// Checks of ends in that time. One takes 5 ns.
  static constexpr std::uint32_t kLooks = 8192;

  // Not every 256th: holds may alternate between short and long.
  static bool is_drawn(std::uint32_t number) noexcept {
    return (number * 0x9E3779B1U) >> 24 == 0;
    static_assert(kDrawnOf == 1U << (32 - 24));
  }
  Since measured(Since now, bool rested) noexcept;
  void note_look() noexcept;
  bool is_long(Since since, std::uint64_t coarse_ns) const noexcept;
  void count_end(HeldKind kind, Since since) noexcept;
  void count_time(HeldKind kind, TimeKind time, std::uint64_t ns, std::uint64_t times) noexcept;

  HistogramFields& histogram(HeldKind kind, TimeKind time) const noexcept {
    return fields_->histograms[static_cast<std::uint32_t>(kind) * kTimeKinds + static_cast<std::uint32_t>(time)];
  }
  /// Returns whether the word at `place`, and the rest of its unit, can be touched. Reserves it.
  bool reserve(const void* place) noexcept;
  /// The same for a reader: does not reserve a unit in which nothing was ever counted.
  bool is_there(const void* place) noexcept;
  bool reserve_unit(std::uint32_t unit) noexcept;
  std::uint32_t unit_of(const void* place) const noexcept;
  std::uint64_t load(const Word64& word) noexcept;
  /// Returns the record of the key, or one that it takes over; null without memory.
  ContendedFields* record_of(std::uint64_t hash) noexcept;

  StatisticsFields* fields_;
  Word32& units_;
  const std::uint64_t tick_ns_;
  // The time of the grant that this process last measured after a pause; with Since::kLong if the ends of present
  // grants are checked.
  Word64 measured_{0};
  Word32 looks_{0};       // since that grant
  Word32 known_{0};       // units that this process has found reserved
  Word32 refused_ms_{0};  // when memory was last refused (ms, lower half); 0: not refused
};

}  // namespace holdfast
