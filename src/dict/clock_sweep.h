// The hand of the clock: goes over a shard's arena from left to right and clears a window, a free run that is long
// enough. What no longer counts it removes; what was not used since it last came by gives way; what was used stays, and
// is moved to the window's left end, or elsewhere, so that the free memory comes together.
//
// Removing and moving are one store each, of the link that leads to the block, so every step leaves a shard in which
// all other keys are as before.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "dict/arena.h"
#include "dict/reclaimer.h"
#include "dict/shard.h"

namespace holdfast {

class ClockSweep {
 public:
  /// `own`: the block of the key that needs the room, 0 if it has none. It gives way only if nothing else helps.
  ClockSweep(Reclaimer& reclaimer, const Shard& shard, Arena& arena, std::uint32_t flush, Evict evict,
             std::uint32_t own) noexcept
      : reclaimer_(reclaimer),
        shard_(shard),
        header_(shard.header()),
        arena_(arena),
        flush_(flush),
        evict_(evict),
        own_(own) {}

  /// Whether there is a free block of `count` granules now. Takes at most a few laps.
  bool clear(std::uint32_t count) noexcept;

  /// Whether a live entry other than the own one was removed.
  bool evicted() const noexcept { return evicted_; }
  /// Whether something else was removed or moved for the sake of what is held, or waits.
  bool met_held() const noexcept { return met_held_ && (evicted_ || moved_ != 0); }

 private:
  enum class Kind {
    free,
    dead,    // counts no more
    live,    // may be evicted
    held,    // a lock, permits, or the own entry: may only be moved
    node,    // of a list, which is evicted whole, when its entry is met
    pinned,  // a waiter, a hold, or what processes wait for, which watch its words
  };
  struct Block {
    std::uint32_t at;
    std::uint32_t granules;
    Kind kind;
    EntryView view;  // meaningless for a free one
  };
  /// How much the next lap may take.
  enum class Pass { cold, warm, own };

  bool look(std::uint32_t at, Block& block) noexcept;
  Kind kind_of(std::uint32_t at, const EntryView& view) const noexcept;
  std::uint32_t gain(const Block& block) const noexcept;

  bool reach() noexcept;
  void skip_pinned() noexcept;
  void grow_zeal() noexcept;

  void visit(const Block& block) noexcept;
  void visit_live(const Block& block) noexcept;
  void keep(const Block& block) noexcept;
  void remove(const Block& block) noexcept;
  bool move(const Block& block, std::uint32_t to) noexcept;
  Word32* link_to(const Block& block) const noexcept;
  void pass(std::uint32_t granules) noexcept;
  void absorb(std::uint32_t start, std::uint32_t old_end) noexcept;
  void forget_ahead() noexcept;

  Reclaimer& reclaimer_;
  const Shard& shard_;
  ShardHeader& header_;
  Arena& arena_;
  const std::uint32_t flush_;
  const Evict evict_;
  std::uint32_t own_;
  bool evicted_ = false;
  bool met_held_ = false;

  std::uint32_t count_ = 0;
  Pass zeal_ = Pass::cold;
  std::uint32_t at_ = 0;         // the hand: a block begins here
  std::uint32_t run_start_ = 0;  // the window so far: a free block that ends at the hand
  std::uint32_t run_ = 0;        // its granules
  std::uint32_t seen_ = 0;       // up to here there is nothing pinned; at or behind the hand's place
  std::uint32_t ahead_ = 0;      // granules between the hand and seen_ that may become free
  std::uint64_t walked_ = 0;     // granules, in this lap
  std::uint64_t moved_ = 0;      // granules
};

}  // namespace holdfast
