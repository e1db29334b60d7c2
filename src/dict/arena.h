// The memory of a shard: blocks of granules, taken and given back. All of its own state is derived.
//
// A free block says so in its first granule (size, next, previous of its bin) and in its last word (size again); the
// free bits of its first and last granule are set, all others are clear. So both neighbours of a block that comes back
// are found in one step, and no two free blocks touch. ShardHeader::hand always names the beginning of a block, free or
// not: whoever takes or gives back keeps it so.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

class Arena {
 public:
  explicit Arena(const Shard& shard) noexcept : shard_(shard), header_(shard.header()) {}

  /// A block of `count` granules, of unspecified content; 0 if there is no run that long, or on damage.
  std::uint32_t allocate(std::uint32_t count) noexcept;

  /// Whether allocate(count) would find one.
  bool can_allocate(std::uint32_t count) noexcept;

  /// The first `count` granules of the free block that begins at `block`. False if it is none, or shorter: damage.
  bool take(std::uint32_t block, std::uint32_t count) noexcept;

  /// Gives a block back. REQUIRES: no chain reaches it any more. Announces the reuse first, so that a reader who still
  /// looks at it starts again. Where the free block begins that it is part of now; 0 on damage.
  std::uint32_t release(std::uint32_t block, std::uint32_t count) noexcept;

  /// REQUIRES: a block begins at `block`.
  bool is_free(std::uint32_t block) const noexcept { return is_marked(block); }
  /// Granules of the free block that begins at `block`; 0 on damage.
  std::uint32_t size_at(std::uint32_t block) noexcept;

  /// Empties the bins, for a rebuild by add_free().
  void clear_bins() noexcept;
  /// Adds a run between two used blocks. REQUIRES: its free bits are clear.
  void add_free(std::uint32_t block, std::uint32_t count) noexcept;

  /// Whether bins and their map fit each other and the blocks in them; `see(block)` is told of each. Ends also where a
  /// bin runs in a circle.
  template <class See>
  bool tally_free(See&& see) noexcept;

  /// Memory was short, and something that is held stood in the way: some of it may belong to dead processes.
  bool crowded() const noexcept { return crowded_; }
  void set_crowded() noexcept { crowded_ = true; }

  /// The free blocks contradict themselves: the shard must be repaired.
  bool damaged() const noexcept { return damaged_; }
  void set_damaged() noexcept { damaged_ = true; }

 private:
  /// Of a bin: the block after `block`, the first of it after 0; false on damage, `next` is 0 at the end.
  bool next_in_bin(std::uint32_t bin, std::uint32_t block, std::uint32_t& next) noexcept;
  bool is_marked(std::uint32_t block) const noexcept;
  void mark(std::uint32_t block, bool free) noexcept;
  bool remove(std::uint32_t block, std::uint32_t count) noexcept;
  struct Run {
    std::uint32_t block;  // 0: none
    std::uint32_t size;
  };
  Run search(std::uint32_t bin, std::uint32_t count) noexcept;
  Run find_run(std::uint32_t count) noexcept;
  bool cut_off(const Run& run, std::uint32_t count) noexcept;
  std::uint32_t next_bin(std::uint32_t from) const noexcept;

  const Shard& shard_;
  ShardHeader& header_;
  bool damaged_ = false;
  bool crowded_ = false;
};

template <class See>
bool Arena::tally_free(See&& see) noexcept {
  std::uint32_t steps = 0;
  for (std::uint32_t bin = 0; bin < kBins; ++bin) {
    std::uint32_t block = 0;
    do {
      if (!next_in_bin(bin, block, block) || steps++ > shard_.granules() + kBins) return false;
      if (block != 0) see(block);
    } while (block != 0);
  }
  return true;
}

}  // namespace holdfast
