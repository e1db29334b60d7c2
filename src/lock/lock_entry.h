// The entry of a lock: the single stores that grant the lock and end a grant.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/status.h"
#include "base/token.h"
#include "dict/arena.h"
#include "dict/expiry.h"
#include "dict/fencing.h"
#include "dict/holder_list.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/transaction.h"
#include "dict/wait_queue.h"
#include "lock/lease.h"
#include "platform/platform.h"

namespace holdfast {

/// Counts the shard's lock and permits entries without a holder: they are memory to be had.
inline void count_free_locks(const Shard& shard, std::uint32_t change) noexcept {
  Word32& count = shard.header().free_locks;
  count.store(count.load(kRelaxed) + change, kRelaxed);
}

inline bool is_held_by(const LockFields& lock, const Lease& lease) noexcept {
  return lock.owner.load(kRelaxed) == lease.owner && lock.sequence.load(kRelaxed) == lease.sequence;
}

struct LockEntry {
  /// REQUIRES: the transaction found a lock.
  static LockEntry of(Transaction& change) noexcept {
    return {change.segment(), change.shard(), change.arena(), *change.view().entry, change.view().lock()};
  }

  Segment& segment;
  Shard& shard;
  Arena& arena;
  Entry& entry;
  LockFields& fields;

  bool live(std::uint32_t flush) const noexcept { return is_live(entry.expiry.load(kRelaxed), flush); }
  bool flushed() const noexcept { return is_flushed(entry.expiry.load(kRelaxed), segment.flush_epoch()); }
  WaitQueue queue() const noexcept { return {shard, arena, fields.queue}; }
  bool has_waiters() const noexcept { return fields.queue.head.load(kRelaxed) != 0; }
  WaitQueue watchers() const noexcept { return {shard, arena, fields.watchers, EntryType::watcher}; }
  bool has_watchers() const noexcept { return fields.watchers.head.load(kRelaxed) != 0; }
  bool held_by(const Lease& lease) const noexcept { return is_held_by(fields, lease); }

  /// Gives the lease another end. `flush`: the epoch under which it was found live; a flush since then still ends it.
  void extend(std::uint64_t end_ms, std::uint32_t flush) const noexcept {
    commit(entry.expiry, expiry_word(end_ms, flush));
    note_end(shard, end_ms);
  }

  /// Gives this lease another end. not_owner: another lease holds the lock; not_found: none does.
  Code extend(const Lease& lease, std::uint64_t end_ms) const noexcept {
    const std::uint32_t flush = segment.flush_epoch();
    if (fields.owner.load(kRelaxed) == kNobody || !live(flush)) return Code::not_found;
    if (!held_by(lease)) return Code::not_owner;
    extend(end_ms, flush);
    return Code::ok;
  }

  /// Grants the free lock to `owner`; returns its fencing number. `reserved`: the number of the waiter that must claim
  /// it; 0: it is claimed.
  // Write all fields of a grant while the owner is kNobody; the store of the owner is the commit.
  std::uint64_t grant(Token owner, const Request& request, std::uint32_t reserved) const noexcept {
    const std::uint64_t now = request.exptime == 0.0 ? platform::coarse_monotonic_ns() : platform::monotonic_ns();
    const std::uint64_t end_ms = end_of_lease(request.exptime, now);
    const std::uint64_t sequence = next_sequence(segment, fields.sequence.load(kRelaxed));
    fields.sequence.store(sequence, kRelease);  // release: pairs with Shard::copy_lock
    fields.reserved.store(reserved, kRelaxed);
    name_holder(request.holder_task);
    fields.since.store(now / 1'000'000, kRelaxed);
    entry.expiry.store(expiry_word(end_ms, segment.flush_epoch()), kRelease);  // release: as the sequence
    note_end(shard, end_ms);
    crash_order();
    commit(fields.owner, owner);
    count_free_locks(shard, ~0U);
    return sequence;
  }

  /// Makes `task` the holder; 0: none.
  // release: pairs with blocker_of_lock(). A reader that sees this task sees the sequence of its grant.
  void name_holder(std::uint32_t task) const noexcept { fields.task.store(task, kRelease); }

  /// Ends the grant, and drops its reason.
  void free() const noexcept {
    commit(fields.owner, kNobody);
    if (fields.reason.load(kRelaxed) != 0) [[unlikely]]
      HolderList(shard, arena, fields.reason, entry.hash.load(kRelaxed)).clear();
    count_free_locks(shard, 1);
  }
};

}  // namespace holdfast
