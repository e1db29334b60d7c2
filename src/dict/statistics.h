// Counts how long locks and permits were waited for and held, and which keys had contention, for people.
//
// Waits are slow anyway: each is counted, by a few atomic steps; of refusals at the same moment, one may count. A lock
// that nobody else wants is taken and released in less time than two looks at the clock, and without a store that other
// processes would have to wait for. So holds count in three ways, and which are open to a grant is known when it
// begins:
//
// - A grant is measured, and counts once, if its process has so measured none of the dictionary for 4 ms.
// - Of the others, one in 256 is drawn, is measured, and counts 256 times.
// - Long ones count once, drawn or not, by a look at the coarse clock at their end: a hold is long if that clock has
//   ticked twice since it began. Each is looked at, but of a process that makes millions of grants in a second only so
//   many that the looks take about a hundredth of its time.
//
// So each grant counts once on average, whatever the order of short and long holds, and each long one exactly once.
//
// The counts lie behind the shards in the dictionary's file, in 68 KB that are a hole until something is counted. So
// they share the life of the file: its removal, world, adoption, permissions, and its mapping in forks. Not done:
// histograms for each process (35 KB each, and lost with the process); the coarse clock at each release (5 ns of some
// 35).
//
// Keys are found by space saving: where there is no room for another key, the one with the least weight in its set
// gives up its record, and the new one goes on from that weight, so that it is not the next to go.
//
// Thread and process safety: all calls, from any thread. Any call may be killed at any instruction: a count is off by
// one, or a record has the text of another key, which the next one to use it finds out.
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
  /// `base`: kStatisticsBytes, mapped; `units`: DictionaryHeader::counted_units.
  Statistics(std::byte* base, Word32& units) noexcept;

  // --- holds ---

  /// The word for a grant of now, a time of either clock. `number`: its fencing number, or the lower half of it.
  Since since(Since now, std::uint64_t number) noexcept {
    const std::uint64_t last = measured_.load(kRelaxed);
    const auto rested = static_cast<std::int64_t>(now.bits - last);
    if (rested < kRestNs && !is_drawn(static_cast<std::uint32_t>(number))) [[likely]]
      return {now.bits | (last & Since::kLong)};
    return measured(now, rested >= kRestNs);
  }
  /// For a grant that was waited for, which counts.
  static Since since_wait(std::uint64_t now_ns) noexcept { return {Since::of(now_ns).bits | Since::kOnce}; }
  /// REQUIRES, from here on: the thread holds no shmtx.

  /// Counts a hold that ends now, if it counts.
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
  /// Writes the keys with the most contention, the worst first. Returns how many.
  std::size_t read(std::span<Contended> worst) noexcept;

 private:
  /// How long a process measures no other hold, but those that are drawn and long ones. Row of these two: lock +
  /// unlock, same object.
  static constexpr std::int64_t kRestNs = 4'000'000;
  /// Looks at ends in that time. One takes 5 ns.
  static constexpr std::uint32_t kLooks = 8192;

  // Not each 256th: holds may be long and short by turns.
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
  /// Whether the word at `place`, and what is in the same unit, can be touched. Reserves it.
  bool reserve(const void* place) noexcept;
  /// The same for a reader: reserves nothing that was never counted in.
  bool is_there(const void* place) noexcept;
  bool reserve_unit(std::uint32_t unit) noexcept;
  std::uint32_t unit_of(const void* place) const noexcept;
  std::uint64_t load(const Word64& word) noexcept;
  /// The record of the key, or one that it takes over; null without memory.
  ContendedFields* record_of(std::uint64_t hash) noexcept;

  StatisticsFields* fields_;
  Word32& units_;
  const std::uint64_t tick_ns_;
  // The time of the grant that this process last measured after a rest; with Since::kLong if the ends of grants of now
  // are looked at.
  Word64 measured_{0};
  Word32 looks_{0};       // since that grant
  Word32 known_{0};       // units that this process has found reserved
  Word32 refused_ms_{0};  // when there was last no memory (ms, lower half); 0: there was
};

}  // namespace holdfast
