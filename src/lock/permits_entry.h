// A permits entry, with its shard's mutex held: the single stores that grant permits and give them back.
//
// The chain of holds is the truth; `used`, what their counts come to, follows from it. A walk over the chain takes time
// for each holder, so permits are granted by `used` alone where that is possible. Only when there seem to be too few
// are the holds looked through, and what has expired, was flushed or is of a dead process is taken out.
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
  HolderList holds() const noexcept { return {shard, arena, fields.holders, entry.hash.load(kRelaxed)}; }
  /// Whether so many can be had now.
  bool has(std::uint32_t want) const noexcept {
    return std::uint64_t{fields.used.load(kRelaxed)} + want <= fields.total.load(kRelaxed);
  }

  /// Whether `used` is less than what the first holder has: it was overwritten. Of a writer this shows any such change,
  /// and what would let a writer in beside readers.
  bool is_understated() const noexcept {
    const HolderList chain = holds();
    if (chain.empty()) return false;
    const HolderList::Cursor first(chain);
    return first.found() && fields.used.load(kRelaxed) < first.fields().count.load(kRelaxed);
  }

  // What changes the holds may meet damage: arena.damaged() then.

  /// Takes out what no longer counts, and says when the next hold ends by itself.
  std::uint64_t purge(std::uint32_t flush, const TokenSet& dead) const noexcept;
  /// As many of the holders as fit. Where there are more, others each time.
  void collect_owners(TokenSet& owners) const noexcept;
  /// Adds a filled hold. `hold.expiry` is of this epoch.
  void add(std::uint32_t block, const Holder& hold) const noexcept;

  /// ok, not_owner, corrupt. Who waits may have to be woken after it: offer().
  Code give_back(const Lease& lease) const noexcept;
  /// Keeps `count` of the permits: also invalid, if that is none or not fewer than there are.
  Code keep(const Lease& lease, std::uint32_t count) const noexcept;
  /// Also not_found, where nobody has any.
  Code extend(const Lease& lease, std::uint64_t end_ms) const noexcept;
  /// Which coroutine is taken for the holder. ok, not_owner, corrupt.
  Code name_holder(const Lease& lease, std::uint32_t task) const noexcept;

  /// Of the waiters, as of now: nobody stands aside for whom there is not enough, nor for somebody who is fair.
  Turn turn_of(World& world, bool fair) const noexcept;
  /// Lets the first waiter know, if there is enough for it, and the first one that stands aside. Gives whom to wake.
  Chosen offer(World& world) const noexcept;

 private:
  bool is_live_hold(const HolderList::Cursor& at, std::uint32_t flush) const noexcept;
  bool has_live_hold(std::uint32_t flush) const noexcept;
  void make_room_for_end(std::uint64_t word) const noexcept;
};

}  // namespace holdfast
