// Counts how long locks and permits were waited for and held, and which keys had contention. The counts are only shown
// to users.
//
// Waits are slow anyway, so each wait is counted by a few atomic operations. If several refusals happen at the same
// time, it is possible that only one of them counts. But taking and releasing a lock without contention takes less time
// than reading the clock twice, and makes no store for which other processes would have to wait. So holds are counted
// in three ways. The beginning of a grant decides which of them apply:
//
// - A grant is measured, and counts once, if its process has not measured another grant of the dictionary in this way
//   for 4 ms.
// - One in 256 of the other grants is drawn at random, is measured, and counts 256 times.
// - A long hold counts once, whether it is drawn or not. A release finds it by reading the coarse clock: a hold is long
//   if this clock has ticked twice since the hold began. Each release makes this check, except in a process that makes
//   millions of grants in a second. Such a process spends about a hundredth of its time on checks.
//
// So each grant counts once on average, whatever the order of short and long holds, and each long hold counts exactly
// once.
//
// The counts are in the dictionary's file, after the shards, in 68 KB that are a hole until something is counted. So
// the counts are removed and adopted with the file, have its permissions, and are mapped in forked children like the
// rest of the file. Two alternatives were rejected: histograms for each process (35 KB each, and lost with the
// process), and reading the coarse clock at each release (5 ns of about 35).
//
// Keys are found by the space-saving algorithm: if there is no room for another key, the key with the least weight in
// its set loses its record. The new key continues from that weight, so that it is not the next key to be dropped.
//
// Thread and process safety: any thread may make any call. A process may be killed at any instruction of a call. A
// count may then be off by one, or a record may have the text of another key, which its next user detects.
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
  std::uint32_t key_length = 0;  // of the complete key
  std::array<char, kContendedKeyMax> key{};
};

class Statistics {
 public:
  /// Makes the view. `base` is the mapped memory, of kStatisticsBytes, and `units` is DictionaryHeader::counted_units.
  Statistics(std::byte* base, Word32& units) noexcept;

  // --- holds ---

  /// Returns the word for a grant that is made at the time `now`, which comes from either clock. `number` is the
  /// grant's fencing token, or the lower half of the token.
  Since since(Since now, std::uint64_t number) noexcept {
    const std::uint64_t last = measured_.load(kRelaxed);
    const auto rested = static_cast<std::int64_t>(now.bits - last);
    if (rested < kRestNs && !is_drawn(static_cast<std::uint32_t>(number))) [[likely]]
      return {now.bits | (last & Since::kLong)};
    return measured(now, rested >= kRestNs);
  }
  /// Returns the word for a grant that was waited for. Such a grant is always measured.
  static Since since_wait(std::uint64_t now_ns) noexcept { return {Since::of(now_ns).bits | Since::kOnce}; }
  /// REQUIRES, for all calls below: the thread holds no shmtx.

  /// Counts a hold that ends now, if it must be counted.
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

  // --- for users ---

  void read(HeldKind kind, TimeKind time, Histogram& histogram) noexcept;
  /// Writes the keys with the most contention, worst first. Returns how many it wrote.
  std::size_t read(std::span<Contended> worst) noexcept;

 private:
  /// After a process has measured a hold, it measures only drawn and long holds for this time. The benchmark of this
  /// constant and the next is "lock + unlock, same object".
  static constexpr std::int64_t kRestNs = 4'000'000;
  /// The maximum number of releases within kRestNs that check whether the hold was long. A check takes 5 ns.
  static constexpr std::uint32_t kLooks = 8192;

  // Returns whether the grant is drawn. Does not simply draw every 256th grant, because short and long holds may
  // alternate.
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
  /// Returns whether the word at `place`, and the rest of its unit, can be touched. Reserves the unit.
  bool reserve(const void* place) noexcept;
  /// Returns the same for a reader, but does not reserve a unit in which nothing was ever counted.
  bool is_there(const void* place) noexcept;
  bool reserve_unit(std::uint32_t unit) noexcept;
  std::uint32_t unit_of(const void* place) const noexcept;
  std::uint64_t load(const Word64& word) noexcept;
  /// Returns the record of the key, or a record that the key takes over. Returns null if there is no memory.
  ContendedFields* record_of(std::uint64_t hash) noexcept;

  StatisticsFields* fields_;
  Word32& units_;
  const std::uint64_t tick_ns_;
  // The beginning of the grant that this process last measured after a pause. Since::kLong is added if the ends of
  // current grants are checked.
  Word64 measured_{0};
  Word32 looks_{0};       // checks since that grant
  Word32 known_{0};       // units that this process has found reserved
  Word32 refused_ms_{0};  // when a request for memory was last refused (ms, lower half); 0: not refused
};

}  // namespace holdfast
