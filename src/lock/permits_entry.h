// The entry of permits: the single stores that grant permits and give them back.
//
// The chain of holder records is the truth; `used`, the sum of their counts, follows from it. A walk over the chain
// takes time for each holder, so grant by `used` alone where that is possible. Only when there seem to be too few
// permits, purge() walks the chain and takes out the records that have expired, were flushed or belong to a dead
// process.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/token_set.h"
#include "dict/arena.h"
#include "dict/expiry.h"
#include "dict/holder_list.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/transaction.h"
#include "dict/wait_queue.h"
#include "lock/handoff.h"

namespace holdfast {

class World;

struct PermitsEntry {
  Segment& segment;
  Shard& shard;
  Arena& arena;
  Entry& entry;
  PermitFields& fields;

  /// REQUIRES: the transaction found permits.
  explicit PermitsEntry(Transaction& change) noexcept
      : segment(change.segment()),
        shard(change.shard()),
        arena(change.arena()),
        entry(*change.view().entry),
        fields(change.view().permits()) {}

  WaitQueue queue() const noexcept { return {shard, arena, fields.queue}; }
  bool has_waiters() const noexcept { return fields.queue.head.load(kRelaxed) != 0; }
  HolderList holders() const noexcept { return {shard, arena, fields.holders, entry.hash.load(kRelaxed)}; }
  /// Whether so many permits are free, by `used`.
  bool has(std::uint32_t want) const noexcept {
    return std::uint64_t{fields.used.load(kRelaxed)} + want <= fields.total.load(kRelaxed);
  }

  /// Whether `used` is less than the count of the first holder record: it was overwritten. While a writer holds, this
  /// shows every decrease; while readers hold, it shows a `used` of 0, which would let a writer in.
  bool is_understated() const noexcept {
    const HolderList chain = holders();
    if (chain.empty()) return false;
    const HolderList::Cursor first(chain);
    return first.found() && fields.used.load(kRelaxed) < first.fields().count.load(kRelaxed);
  }

  // The calls that walk the chain may meet damage: check arena.damaged() after them.

  /// Takes out the records that no longer count. Returns when the next record expires (ms); kExpiryNever: none does.
  std::uint64_t purge(std::uint32_t flush, const TokenSet& dead) const noexcept;
  /// Collects as many owners as fit. If there are more, starts at another place each time.
  void collect_owners(TokenSet& owners) const noexcept;
  /// Adds a filled holder record. REQUIRES: `holder.expiry` is of this epoch.
  void add(std::uint32_t block, const Holder& holder) const noexcept;

  /// Gives back the lease's permits. ok, not_owner, corrupt. Call offer() after it.
  Code give_back(const Lease& lease) const noexcept;
  /// Gives back all of the lease's permits but `count`. ok, not_owner, corrupt, invalid (`count` is 0, or more than the
  /// lease has).
  Code keep(const Lease& lease, std::uint32_t count) const noexcept;
  /// Gives the lease another end; `before_ms` is the one it had. ok, not_owner, corrupt, not_found (no process has
  /// permits).
  Code extend(const Lease& lease, std::uint64_t end_ms, std::uint64_t& before_ms) const noexcept;
  /// Makes `task` the holder; 0: none. ok, not_owner, corrupt.
  Code name_holder(const Lease& lease, std::uint32_t task) const noexcept;

  /// Finds the waiters that come next, as of now. A waiter does not stand aside if there are too few permits for it,
  /// nor for a `fair` request.
  Turn turn_of(World& world, bool fair) const noexcept;
  /// Chooses the first waiter, and the first that stands aside, if there are enough permits for it. Returns the waiters
  /// to wake.
  Chosen offer(World& world) const noexcept;

 private:
  bool is_live_holder(const HolderList::Cursor& at, std::uint32_t flush) const noexcept;
  Code judge_holder(const HolderList::Cursor& at) const noexcept;
  bool has_live_holder(std::uint32_t flush) const noexcept;
  void make_room_for_end(std::uint64_t word) const noexcept;
};

}  // namespace holdfast
