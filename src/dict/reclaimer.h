// Frees memory for a new block in a shard: reclaims dead entries, and evicts the least used entries.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dict/arena.h"
#include "dict/key.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/wait_queue.h"

namespace holdfast {

class ClockSweep;
class DeadOwners;
class World;

/// Says whether live entries may be removed to make room.
enum class Evict { no, yes };

/// Says how a run of free granules could be made.
struct Prospect {
  enum class Way {
    none,
    unknown,  // the shard changed during the scan
    moving,   // perhaps by moving entries that are held
    removal,  // by removing adjacent entries
  };
  Way way = Way::none;
  std::uint32_t entry = 0;  // for removal: the first entry of the run, if it has one, and its hash; only hints
  std::uint32_t hash = 0;
  bool evictable = false;  // if eviction is allowed: there were values that may be evicted
};

class Reclaimer {
 public:
  Reclaimer(World& world, Segment& segment, Shard& shard, Arena& arena) noexcept
      : world_(world), segment_(segment), shard_(shard), arena_(arena) {}

  const Shard& shard() const noexcept { return shard_; }
  Arena& arena() const noexcept { return arena_; }
  std::uint32_t flush_epoch() const noexcept { return segment_.flush_epoch(); }

  /// Makes sure that a free block of `count` granules exists. First removes dead entries, then moves entries so that
  /// the free memory is contiguous, then, with Evict::yes, removes the least used entries. Keeps locks and permits in
  /// use.
  ///
  /// Updates `position`, the position of the key, because entries move. Sets `evicted` to true if a live entry other
  /// than the key's own was removed; otherwise does not change it. Returns ok, no_memory or corrupt.
  Code make(std::uint32_t count, Evict evict, const Key& key, Position& position, bool& evicted) noexcept;

  /// Releases the memory of an entry that was just cut from its chain: its block, its nodes if it is a list, and its
  /// holders. Wakes the entry's waiters and watchers. Returns the beginning of the free block that now contains the
  /// entry's block, or 0 on damage.
  std::uint32_t discard(std::uint32_t block, const EntryView& view) noexcept;

  /// Wakes processes that wait for a change of a key with this hash, because such a key was evicted.
  void note_evicted(std::uint32_t hash) noexcept;

  struct Swept {
    std::uint32_t expired = 0;  // expired or flushed entries
    std::uint32_t locks = 0;    // free locks and permits
    std::uint32_t dead = 0;     // grants and waiters of dead processes
  };
  /// Ends the grants and waits of the processes in `dead`. Then removes dead entries, including at most `max` expired
  /// or flushed entries.
  Swept sweep(std::uint32_t max = ~0U, const DeadOwners* dead = nullptr) noexcept;

  /// Makes a free run of `count` granules at a place where, according to a scan, this is possible without evicting
  /// anything. Returns false if it is no longer possible.
  bool clear_at(std::uint32_t count, const Prospect& prospect) noexcept;

  // The next calls use only hints, and need no mutex.
  /// Returns whether, during the last second, a search found no dead owner. In a shard of more than 1 MB, the time is
  /// longer (dict/dead_owners.h).
  bool asked_lately() const noexcept;
  void note_asked(bool again) noexcept;
  /// Returns whether a search failed during the last second although it seemed possible.
  bool failed_lately() const noexcept;

 private:
  /// A sweep in progress.
  struct Sweep {
    std::uint32_t max;
    const DeadOwners* dead;
    std::uint32_t flush;
    Swept swept;
    std::uint32_t kept = 0;
    std::uint32_t walked = 0;  // granules
    std::uint64_t next_end;
  };
  bool sweep_chain(std::uint32_t bucket, Sweep& sweep) noexcept;
  void wake_watchers(WaitQueue watchers) noexcept;
  std::uint32_t take_permits_from_dead(const EntryView& view, const DeadOwners& dead) noexcept;
  std::uint32_t take_from_dead(const EntryView& view, const DeadOwners& dead) noexcept;
  bool any_dead() const noexcept;
  bool many_may_be_free(Evict evict) const noexcept;
  bool rests() const noexcept;
  void rest_if_in_vain(std::uint32_t looked_at, const Swept& swept) noexcept;
  bool is_impossible(std::uint32_t count, Evict evict) const noexcept;
  bool clear(std::uint32_t count, Evict evict, const Position& position, bool& evicted) noexcept;
  bool is_lately(const Word32& hint) const noexcept;
  void note_failure(const ClockSweep& sweep, bool cleared) noexcept;

  World& world_;
  Segment& segment_;
  Shard& shard_;
  Arena& arena_;
};

}  // namespace holdfast
