// Walks over the entries of a shard without the shard's mutex.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <utility>

#include "dict/shard.h"

namespace holdfast {

/// Finds the non-empty buckets of a range, in order. Prefetches the entries of many buckets together, because a walk in
/// a large dictionary mostly waits for memory.
///
/// A bucket that is skipped was empty at some moment. A bucket that is returned may have become empty.
class UsedBuckets {
 public:
  /// Begins at the bucket `from`. REQUIRES: from <= end <= shard.buckets(), and the shard is open.
  UsedBuckets(const Shard& shard, std::uint32_t from, std::uint32_t end) noexcept
      : shard_(shard), ahead_(from), end_(end) {
    fill(next_batch());
    turn();
  }

  /// Returns whether there is another bucket, and sets `bucket` to it.
  bool next(std::uint32_t& bucket) noexcept {
    if (at_ == batch().count) [[unlikely]] {
      if (batch().count == 0) return false;
      turn();
      if (batch().count == 0) return false;
    }
    bucket = batch().buckets[at_++];
    return true;
  }
  /// Returns the first bucket that was not returned, or `end`. All buckets before it were returned, or were empty.
  std::uint32_t position() const noexcept {
    if (at_ < batch().count) return batch().buckets[at_];
    return next_batch().count != 0 ? next_batch().buckets[0] : ahead_;
  }

 private:
  /// The number of buckets in a batch. A processor can fetch about two batches at the same time. The benchmark is
  /// "get_keys, per key".
  static constexpr std::uint32_t kBatch = 16;
  /// The number of buckets that are read together. After that many empty buckets, fill() skips empty buckets without
  /// storing their numbers, which takes a third of the time. A batch may get kStep - 1 buckets more than kBatch.
  static constexpr std::uint32_t kStep = 8;
  static constexpr auto kIndices = std::make_index_sequence<kStep>();
  struct Batch {
    std::uint32_t count = 0;
    std::array<std::uint32_t, kBatch + kStep - 1> buckets;  // here and below, the first `count` are valid
    std::array<std::uint32_t, kBatch + kStep - 1> blocks;   // the first block of each bucket
  };
  const Batch& batch() const noexcept { return batches_[now_]; }
  const Batch& next_batch() const noexcept { return batches_[now_ ^ 1]; }
  Batch& next_batch() noexcept { return batches_[now_ ^ 1]; }

  // Fetches the first entries of a batch while the previous batch is used and, once they have arrived, the entries that
  // follow them.
  void turn() noexcept {
    now_ ^= 1;
    at_ = 0;
    fill(next_batch());
    for (std::uint32_t i = 0; i < batch().count; ++i)
      if (const std::uint32_t block = batch().blocks[i]; shard_.holds_header(block))
        shard_.prefetch(shard_.entry(block).next.load(kRelaxed));
  }

  template <std::size_t... kIndex>
  static bool are_empty(const Word32* heads, std::index_sequence<kIndex...> /*indices*/) noexcept {
    return (heads[kIndex].load(kRelaxed) | ...) == 0;
  }

  // Changes only local variables, so that the loop over the buckets, most of which may be empty, runs in registers.
  void fill(Batch& batch) noexcept {
    const Word32* const heads = &shard_.bucket(0);
    const std::uint32_t end = end_;
    std::uint32_t ahead = ahead_;
    std::uint32_t count = 0;
    while (count < kBatch && ahead != end) {
      const std::uint32_t before = count;
      for (const std::uint32_t stop = std::min(end, ahead + kStep); ahead != stop; ++ahead) {
        const std::uint32_t block = heads[ahead].load(kRelaxed);
        batch.buckets[count] = ahead;
        batch.blocks[count] = block;
        count += block != 0 ? 1 : 0;  // not a branch, which would be mispredicted half of the time
      }
      if (count == before) {
        while (end - ahead >= kStep && are_empty(heads + ahead, kIndices)) ahead += kStep;
      }
    }
    ahead_ = ahead;
    batch.count = count;
    for (std::uint32_t i = 0; i < count; ++i) shard_.prefetch(batch.blocks[i]);
  }

  const Shard& shard_;
  std::uint32_t ahead_;  // the first bucket that was not read yet
  std::uint32_t end_;
  std::uint32_t at_ = 0;  // position in the batch
  std::uint32_t now_ = 0;
  std::array<Batch, 2> batches_;
};

/// The function that a walk calls for each entry that has a key. It returns how many granules of other blocks it has
/// walked.
template <class Visit>
concept EntryVisit = requires(Visit visit, const EntryView& view) {
  { visit(view) } -> std::same_as<std::uint32_t>;
};

/// Visits all entries of the shard's chains. Takes no mutex and checks no epoch. So while other processes change the
/// shard, it sees words from different moments, and may miss entries or visit blocks that are no longer entries. It
/// always ends, because it does not walk more granules than the arena has. (It meets a block twice only on damage or
/// during a change.)
template <EntryVisit Visit>
void walk_entries(const Shard& shard, Visit&& visit) noexcept {
  std::uint32_t walked = 0;
  UsedBuckets used(shard, 0, shard.buckets());
  for (std::uint32_t bucket = 0; walked < shard.granules() && used.next(bucket);) {
    EntryView view{};
    for (std::uint32_t block = shard.bucket(bucket).load(kRelaxed);
         walked < shard.granules() && shard.inspect_in(bucket, block, view); block = view.entry->next.load(kRelaxed))
      walked += view.granules + visit(view);
  }
}

}  // namespace holdfast
