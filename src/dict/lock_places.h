// Remembers the places of the locks that this process has recently taken, so that a release need not look them up.
// These places are only hints, and are private to this process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// The block of a lock, and the reuse epoch of its shard when the block was in its chain. As long as no memory of the
/// shard is released, the block is still in its chain.
struct LockPlace {
  std::uint64_t epoch;
  std::uint32_t shard;
  std::uint32_t block;  // 0: unknown

  static constexpr int kBlockBits = 21;  // enough for any arena except the large ones of a dictionary for large values
  static constexpr int kShardBits = 16;
  static constexpr int kEpochBits = 64 - kBlockBits - kShardBits;

  bool is_of(std::uint64_t now) const noexcept { return ((now ^ epoch) & ((std::uint64_t{1} << kEpochBits) - 1)) == 0; }
};

/// The places, by fencing token. Each place is one word, so threads may share them.
class LockPlaces {
 public:
  void note(std::uint64_t sequence, const LockPlace& place) noexcept {
    if (place.block >= 1U << LockPlace::kBlockBits) [[unlikely]]
      return;  // the release will look the lock up
    of(sequence).store(place.epoch << (LockPlace::kShardBits + LockPlace::kBlockBits) |
                           std::uint64_t{place.shard} << LockPlace::kBlockBits | place.block,
                       kRelaxed);
  }
  LockPlace find(std::uint64_t sequence) noexcept {
    const std::uint64_t word = of(sequence).load(kRelaxed);
    return {word >> (LockPlace::kShardBits + LockPlace::kBlockBits),
            static_cast<std::uint32_t>(word >> LockPlace::kBlockBits & ((1U << LockPlace::kShardBits) - 1)),
            static_cast<std::uint32_t>(word & ((1U << LockPlace::kBlockBits) - 1))};
  }

 private:
  Word64& of(std::uint64_t sequence) noexcept { return words_[sequence % words_.size()]; }

  std::array<Word64, 64> words_{};
};

}  // namespace holdfast
