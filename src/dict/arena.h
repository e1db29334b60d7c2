// The memory of a shard: allocates and releases blocks of granules. All state of the arena itself is derived.
//
// The first granule of a free block contains the block's size and its neighbours in its bin (size, next, previous). The
// block's last word repeats the size. The free bits of the first and the last granule of each free block are set; all
// other free bits are clear. So a release finds both neighbours of a block in one step, and no two free blocks are
// adjacent. ShardHeader::hand always names the beginning of a block, free or not; every allocation and release
// preserves this.
//
// The old value that a `set` leaves behind often has the size that the next `set` needs. So the block that was last
// released by a change of a value becomes the spare block. It is not merged with its neighbours, is not in a bin, and
// its free bits are clear. A string that is overwritten repeatedly alternates between two blocks, which halves the
// work.
//
// The spare block contains its size twice, once inverted, and a 0 where an entry has its shape. So an overwritten word
// cannot turn an entry into a spare block. After a death, repair frees the spare block, because no chain reaches it.
//
// ShardHeader::no_run and no_room remember shortages: the smallest sizes that a search failed to find, without and with
// eviction. A call that is refused because of such a shortage scans the arena without the mutex, and takes the mutex
// only if it has found a sufficient run (Reclaimer). So calls that are refused repeatedly do not delay other calls.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

/// The length of a run that was not found in an arena. It is a single word, because each operation on a dictionary
/// passes it on.
class Shortage {
 public:
  constexpr Shortage() noexcept = default;
  /// Makes a shortage for an arena that can grow.
  static constexpr Shortage until_grown(std::uint32_t granules) noexcept { return Shortage(granules); }
  /// Makes a shortage for an arena that cannot grow. `evict` says that even evicting live values did not help.
  static constexpr Shortage for_good(std::uint32_t granules, bool evict) noexcept {
    return Shortage(granules | kFull | (evict ? kEvict : 0));
  }

  constexpr bool can_grow() const noexcept { return bits_ != 0 && (bits_ & kFull) == 0; }
  constexpr bool is_full() const noexcept { return (bits_ & kFull) != 0; }
  constexpr bool may_evict() const noexcept { return (bits_ & kEvict) != 0; }
  constexpr std::uint32_t granules() const noexcept { return bits_ & ~(kFull | kEvict); }

 private:
  static constexpr std::uint32_t kFull = std::uint32_t{1} << 31;  // no arena has that many granules
  static constexpr std::uint32_t kEvict = std::uint32_t{1} << 30;
  constexpr explicit Shortage(std::uint32_t bits) noexcept : bits_(bits) {}

  std::uint32_t bits_ = 0;
};

class Arena {
 public:
  explicit Arena(const Shard& shard) noexcept : shard_(shard), header_(shard.header()) {}

  /// Allocates a block of `count` granules with unspecified content. Returns 0 if there is no such run, or on damage.
  std::uint32_t allocate(std::uint32_t count) noexcept;

  /// Does the same, but the block begins at a cache line if possible.
  std::uint32_t allocate_lines(std::uint32_t count) noexcept;

  /// Returns whether allocate(count) would find a block.
  bool can_allocate(std::uint32_t count) noexcept;

  /// Allocates the first `count` granules of the free block at `block`. Returns false if no free block begins there or
  /// if the block is shorter, which means damage.
  bool take(std::uint32_t block, std::uint32_t count) noexcept;

  /// Releases a block. First advances the reuse epoch, so that a reader that is still reading the block starts again.
  /// Returns the beginning of the free block that now contains the released block, or 0 on damage. REQUIRES: no chain
  /// reaches the block any more.
  std::uint32_t release(std::uint32_t block, std::uint32_t count) noexcept;

  /// Releases a block, but keeps it whole as the only spare block, which the next allocate() of its size uses directly.
  /// Merges the previous spare block with its free neighbours.
  void keep(std::uint32_t block, std::uint32_t count) noexcept;

  /// Returns the spare block, or 0 if there is none.
  std::uint32_t spare() const noexcept { return header_.bins[kSpareBin].load(kRelaxed); }
  /// Returns whether `block` is a valid spare block of `count` granules. Does not trust any of its words.
  bool is_spare(std::uint32_t block, std::uint32_t count) const noexcept;
  /// Returns the size, in granules, of the spare block if it begins at `block`, otherwise 0. Needs no mutex.
  std::uint32_t spare_at(std::uint32_t block) const noexcept {
    if (block != spare()) return 0;
    const std::uint32_t size = shard_.holds_granule(block) ? shard_.words32(block)[0].load(kRelaxed) : 0;
    return is_spare(block, size) ? size : 0;
  }
  /// Allocates the spare block and makes `kept`, a block of the same size, the new spare block, in one step. REQUIRES:
  /// is_spare(allocated, count); no chain reaches `kept` any more.
  void change_spare(std::uint32_t allocated, std::uint32_t kept, std::uint32_t count) noexcept;

  /// Makes the spare block an ordinary free block. REQUIRED before a walk over the blocks from left to right.
  void settle() noexcept;

  /// Releases a block of a chain that was cut off. Returns the next block of the chain.
  template <class Fields>
  std::uint32_t release_link(Fields& fields, std::uint32_t block, std::uint32_t count) noexcept;

  /// Returns whether the block is free. REQUIRES: a block begins at `block`.
  bool is_free(std::uint32_t block) const noexcept { return free_bit(block); }
  /// Returns the size, in granules, of the free block that begins at `block`, or 0 on damage.
  std::uint32_t size_at(std::uint32_t block) noexcept;

  /// Forgets the known shortages (Reclaimer::clear).
  void forget_shortage() noexcept {
    header_.no_run.store(0, kRelaxed);
    header_.no_room.store(0, kRelaxed);
  }

  /// Empties the bins, for a rebuild by add_free().
  void clear_bins() noexcept;
  /// Adds a free run between two used blocks. REQUIRES: the run's free bits are clear.
  void add_free(std::uint32_t block, std::uint32_t count) noexcept;

  /// Returns whether the bins, their map and their blocks are consistent. Calls `see(block)` for each block. Terminates
  /// even if a bin is circular.
  template <class See>
  bool tally_free(See&& see) noexcept;

  /// Returns whether memory was short while locks or permits were in use. Some of them may belong to dead processes.
  bool crowded() const noexcept { return crowded_; }
  void set_crowded() noexcept { crowded_ = true; }

  /// Returns the length of the run that was not found. Setting it also sets `crowded`, so that one check covers both.
  Shortage shortage() const noexcept { return shortage_; }
  void set_shortage(Shortage shortage) noexcept {
    shortage_ = shortage;
    crowded_ = true;
  }

  /// Returns whether the free blocks contradict each other, so that the shard must be repaired.
  bool damaged() const noexcept { return damaged_; }
  void set_damaged() noexcept { damaged_ = true; }

 private:
  /// Sets `next` to the block after `block` in the bin, or to the bin's first block if `block` is 0. Sets `next` to 0
  /// at the end of the bin. Returns false on damage.
  bool next_in_bin(std::uint32_t bin, std::uint32_t block, std::uint32_t& next) noexcept;
  bool free_bit(std::uint32_t block) const noexcept;
  void set_free_bit(std::uint32_t block, bool free) noexcept;
  bool remove(std::uint32_t block, std::uint32_t count) noexcept;
  struct Run {
    std::uint32_t block;  // 0: none
    std::uint32_t size;
  };
  Run search(std::uint32_t bin, std::uint32_t count) noexcept;
  Run find_run(std::uint32_t count) noexcept;
  Run find_run_or_settle(std::uint32_t count) noexcept;
  void announce_reuse() noexcept;
  std::uint32_t merge(std::uint32_t block, std::uint32_t count) noexcept;
  void make_spare(std::uint32_t block, std::uint32_t count) noexcept;
  std::uint32_t spare_size(std::uint32_t block) noexcept;
  std::uint32_t take_spare(std::uint32_t count) noexcept;
  void drop_spare(std::uint32_t count) noexcept;
  void step_over(std::uint32_t block, std::uint32_t count) noexcept;
  bool cut_off(const Run& run, std::uint32_t count) noexcept;
  std::uint32_t next_bin(std::uint32_t from) const noexcept;

  const Shard& shard_;
  ShardHeader& header_;
  bool damaged_ = false;
  bool crowded_ = false;
  Shortage shortage_;
};

// --- the spare block ---

/// The words of the spare block. The word at the position of an entry's shape is 0, and no entry's shape is 0.
struct SpareWords {
  static constexpr std::uint32_t kSize = 0;
  static constexpr std::uint32_t kSeal = 1;
  static constexpr std::uint32_t kShape = 2;
};
static_assert(SpareWords::kShape * sizeof(Word32) == offsetof(Entry, shape) &&
              offsetof(Entry, shape) == offsetof(ListNode, shape));

inline void Arena::make_spare(std::uint32_t block, std::uint32_t count) noexcept {
  Word32* const words = shard_.words32(block);
  words[SpareWords::kSize].store(count, kRelaxed);
  words[SpareWords::kSeal].store(~count, kRelaxed);
  words[SpareWords::kShape].store(0, kRelaxed);
  header_.bins[kSpareBin].store(block, kRelaxed);
}

// Checks that the words of the spare block agree, so that an entry's memory is not allocated because of an overwritten
// word.
inline bool Arena::is_spare(std::uint32_t block, std::uint32_t count) const noexcept {
  if (!shard_.holds_granule(block) || count > shard_.granules() - block) return false;
  const Word32* const words = shard_.words32(block);
  return count != 0 && words[SpareWords::kSize].load(kRelaxed) == count &&
         words[SpareWords::kSeal].load(kRelaxed) == ~count && words[SpareWords::kShape].load(kRelaxed) == 0;
}

// Clears the type before releasing the block, so that a circular chain cannot release it twice.
template <class Fields>
std::uint32_t Arena::release_link(Fields& fields, std::uint32_t block, std::uint32_t count) noexcept {
  const std::uint32_t next = fields.next.load(kRelaxed);
  fields.shape.store(0, kRelaxed);
  release(block, count);
  return next;
}

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
