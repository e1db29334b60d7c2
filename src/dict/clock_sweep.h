// The clock sweep frees memory: a hand moves over a shard's arena from left to right and clears a window, which is a
// free run of the requested length. It removes dead entries, and live entries that have not been used since its last
// visit. It keeps used entries, and moves them to the left end of the window or elsewhere, so that the free memory is
// contiguous.
//
// So entries are evicted in the order of the CLOCK algorithm, with counters of up to 3. A program that reads all keys
// once does not displace the entries that are in regular use. The sweep proceeds by address, not by bucket, because
// only adjacent blocks form a window.
//
// Held locks are moved but never removed. Holders, and entries with waiters, are *pinned*: they are not even moved,
// because processes refer to waiters by their blocks. Before the sweep removes anything, it makes sure that no pinned
// block ends the window too soon. The old value of the key that needs the memory is removed last.
//
// Removing or moving a block is one store, to the link that leads to the block. So all other keys of the shard are
// unchanged after every step.
//
// REQUIRES, for every call except foresee(): the shard's mutex is held.
#pragma once

#include <cstdint>

#include "dict/arena.h"
#include "dict/reclaimer.h"
#include "dict/shard.h"

namespace holdfast {

class ClockSweep {
 public:
  /// Makes a sweep. `own` is the block of the key that needs the memory, or 0 if the key has none. This block is
  /// removed only if nothing else helps.
  ClockSweep(Reclaimer& reclaimer, Evict evict, std::uint32_t own) noexcept
      : reclaimer_(reclaimer),
        shard_(reclaimer.shard()),
        header_(shard_.header()),
        arena_(reclaimer.arena()),
        flush_(reclaimer.flush_epoch()),
        evict_(evict),
        own_(own) {}

  /// Makes a free block of `count` granules, in at most a few laps of the hand. Returns whether it has succeeded.
  bool clear(std::uint32_t count) noexcept;

  /// Checks whether a free block of `count` granules could be made. The check only reads, and needs no mutex.
  Prospect foresee(std::uint32_t count) noexcept;

  /// Returns whether the search seemed possible but failed.
  bool seemed_possible() const noexcept { return possible_; }
  /// Returns whether a live entry other than `own` was removed.
  bool evicted() const noexcept { return evicted_; }
  /// Returns whether entries were removed or moved although locks, permits or waiters were in the way.
  bool met_held() const noexcept { return met_held_ && (evicted_ || moved_ != 0); }
  /// Returns whether an incomplete grant was in the way. Such a grant is usually completed soon.
  bool met_unsettled() const noexcept { return met_unsettled_; }

 private:
  enum class Kind {
    free,
    dead,    // expired, flushed, or held by nobody, unless it is a lock behind a gate with waiters
    live,    // may be evicted
    held,    // a lock or permits in use, or the key's own entry: may only be moved
    node,    // a node of a list; a list is evicted as a whole, when the sweep meets its entry
    pinned,  // a waiter, a holder, an entry with waiters (which watch its words), or a lock that is being taken now
  };
  struct Block {
    std::uint32_t at;
    std::uint32_t granules;
    Kind kind;
    bool was_unowned;  // whether this is a lock that the sweep has taken over
    EntryView view;    // meaningless for a free block

    bool is_lock() const noexcept { return kind != Kind::free && view.type == EntryType::lock; }
  };
  /// Says which entries a lap may remove: `cold` allows unused entries, `warm` also used entries, and `own` also the
  /// key's own entry.
  enum class Pass { cold, warm, own };

  bool look(std::uint32_t at, Block& block) noexcept;
  Kind kind_of(std::uint32_t at, const EntryView& view) const noexcept;
  std::uint32_t gain(const Block& block) const noexcept;

  /// The runs and windows that a walk from left to right has found.
  struct Windows {
    std::uint32_t run = 0;
    std::uint32_t window = 0;
    std::uint32_t longest_run = 0;
    std::uint32_t widest_window = 0;
    std::uint32_t smallest_kept = ~0U;

    void add(const Block& block, std::uint32_t gained) noexcept;
    /// Returns whether moving entries may make a free run: there is a wide enough window, and the smallest entry in a
    /// window fits into a run.
    bool joinable(std::uint32_t count) const noexcept { return longest_run >= smallest_kept && widest_window >= count; }
  };

  bool is_possible() noexcept;
  void note_pinned(const Block& block) noexcept;
  bool reach() noexcept;
  void skip_pinned() noexcept;
  void next_pass() noexcept;

  void visit(Block block) noexcept;
  void visit_live(const Block& block) noexcept;
  void keep(const Block& block) noexcept;
  void leave(const Block& block) noexcept;
  LockFields& lock_at(std::uint32_t block) const noexcept;
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
  bool met_unsettled_ = false;
  bool possible_ = false;  // false: unknown

  std::uint32_t count_ = 0;
  Pass pass_ = Pass::cold;
  std::uint32_t at_ = 0;         // the hand: the beginning of a block
  std::uint32_t run_start_ = 0;  // beginning of the window so far: a free block that ends at the hand
  std::uint32_t run_ = 0;        // size of the window, in granules
  std::uint32_t seen_ = 0;       // no block from the hand to here is pinned; never left of the hand
  std::uint32_t ahead_ = 0;      // granules between the hand and seen_ that may become free
  std::uint64_t walked_ = 0;     // granules that were passed in this lap
  std::uint64_t moved_ = 0;      // granules that were moved
};

}  // namespace holdfast
