// The permits entry. Each operation on it commits with a single store, which grants permits or gives them back.
//
// Only the chain of holder records is authoritative. `used`, the sum of their counts, is derived from it. A walk along
// the chain takes time for each holder, so a grant relies on `used` if possible. Only if there seem to be too few
// permits does an attempt check the chain, and remove the records that have expired, were flushed, or belong to a dead
// process.
//
// If there are few holders, each such attempt checks all of them with purge(). If there are many, it checks only some,
// until a full check is due: when a holder's lease ends, or after some time. One attempt claims the full check, checks
// some holders at a time, and releases the mutex in between (lock/permits.cc).
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <array>
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
#include "world/process_table.h"

namespace holdfast {

class World;

/// Up to this many holders are checked without releasing the mutex in between. The benchmark "Many holders of one key"
/// compares few holders with many.
inline constexpr std::uint32_t kFewHolders = TokenSet::kMax;

/// The progress of a check of many holders.
struct HolderCheck {
  static constexpr std::uint64_t kFirst = ~std::uint64_t{0};
  std::uint64_t next = kFirst;  // where the check continues: the fencing token of a holder; 0: the check is over
  std::uint64_t next_end = kNever;
  bool removed = false;                // whether some records were no longer valid
  std::array<Token, kSlots> owners{};  // for each slot, one of the owners seen

  void see(Token owner) noexcept {
    if (slot_of(owner) < kSlots) owners[slot_of(owner)] = owner;
  }
};

inline HeldKind held_kind(PermitsKind kind) noexcept {
  return kind == PermitsKind::rwlock ? HeldKind::rwlock : HeldKind::semaphore;
}

/// Returns the kind of permits. REQUIRES: `kind` is not `lock`.
inline PermitsKind permits_kind(HeldKind kind) noexcept {
  return kind == HeldKind::rwlock ? PermitsKind::rwlock : PermitsKind::semaphore;
}

/// Returns whether, according to `used`, `want` permits are free. If `want` is kAllPermits, returns whether no permit
/// is used, whatever the total is, because requests of other kinds ask a semaphore for all permits.
inline bool are_enough(const PermitFields& fields, std::uint32_t want) noexcept {
  const std::uint64_t used = fields.used.load(kRelaxed);
  return want == kAllPermits ? used == 0 : used + want <= fields.total.load(kRelaxed);
}

struct PermitsEntry {
  Segment& segment;
  Shard& shard;
  Arena& arena;
  Entry& entry;
  PermitFields& fields;

  /// Wraps the entry that the transaction found. REQUIRES: it found permits.
  explicit PermitsEntry(Transaction& change) noexcept
      : segment(change.segment()),
        shard(change.shard()),
        arena(change.arena()),
        entry(*change.view().entry),
        fields(change.view().permits()) {}

  WaitQueue queue() const noexcept { return {shard, arena, fields.queue, EntryType::waiter, kind()}; }
  bool has_waiters() const noexcept { return fields.queue.head.load(kRelaxed) != 0; }
  HeldKind kind() const noexcept { return held_kind(static_cast<PermitsKind>(entry.flags.load(kRelaxed))); }
  HolderList holders() const noexcept { return {shard, arena, fields, entry.hash.load(kRelaxed)}; }
  bool has(std::uint32_t want) const noexcept { return are_enough(fields, want); }

  /// Returns whether `used` is less than the count of the first holder record, which means that `used` was overwritten.
  /// With a writer, this detects every decrease. With readers, it detects a `used` of 0, which would admit a writer.
  bool is_understated() const noexcept {
    const HolderList chain = holders();
    if (chain.empty()) return false;
    const HolderList::Cursor first(chain);
    return first.found() && fields.used.load(kRelaxed) < first.fields().count.load(kRelaxed);
  }

  // The calls below walk the chain and may find damage. Check arena.damaged() after each call.

  bool has_few_holders() const noexcept { return fields.number.load(kRelaxed) <= kFewHolders; }

  /// Removes the records that are no longer valid, and collects as many of the other owners as fit. Returns when the
  /// next record expires (ms), or kExpiryNever if none does.
  std::uint64_t purge(std::uint32_t flush, const TokenSet& dead, TokenSet& owners) const noexcept;
  /// Returns whether many holders must all be checked now, because a check is due or `at_once` is set. If this returns
  /// true, the caller must check them with check_some(), and no other attempt does so in the meantime.
  bool claim_check(bool at_once) const noexcept;
  /// Checks `max` more holders.
  void check_some(HolderCheck& check, std::uint32_t flush, const TokenSet& dead, std::uint32_t max) const noexcept;
  /// Returns the time (ms) at which the end of a lease allows a check of many holders, or kExpiryNever if no lease
  /// ends.
  std::uint64_t next_check_ms() const noexcept;
  /// Collects the owners of the first `max` holders.
  void collect_owners(TokenSet& owners, std::uint32_t max = kFewHolders) const noexcept;
  /// Returns whether there is a valid record with this fencing token or a smaller one.
  bool has_holder_up_to(std::uint64_t grant, std::uint32_t flush, const TokenSet& dead) const noexcept;
  /// Returns the largest fencing token of a valid record, or 0 if there is no valid record.
  std::uint64_t newest_grant(std::uint32_t flush, const TokenSet& dead) const noexcept;

  /// Adds a filled holder record. REQUIRES: `holder.expiry` belongs to the current flush epoch.
  void add(std::uint32_t block, const Holder& holder) const noexcept;
  /// Records the holder with which a new entry was made.
  void note_first(std::uint32_t block, const Holder& holder) const noexcept;

  /// Returns whether the lease has permits.
  bool has(const Lease& lease) const noexcept;
  /// Gives back the lease's permits, and sets `since` to the time when the lease got them. Returns ok, not_owner or
  /// corrupt. Call offer() afterwards.
  Code give_back(const Lease& lease, Since& since) const noexcept;
  /// Gives back all but `count` of the lease's permits. Returns ok, not_owner, corrupt, or invalid (`count` is 0, or
  /// more than the lease has).
  Code keep(const Lease& lease, std::uint32_t count) const noexcept;
  /// Gives the lease all permits, if no other holder has any. Sets `end_ms` to the end of the lease. Returns ok, locked
  /// (there are other holders), not_owner or corrupt.
  Code upgrade(const Lease& lease, std::uint64_t& end_ms) const noexcept;
  /// Changes the time at which the lease ends, and sets `before_ms` to its previous end. Returns ok, not_owner,
  /// corrupt, or not_found (no process has permits).
  Code extend(const Lease& lease, std::uint64_t end_ms, std::uint64_t& before_ms) const noexcept;
  /// Makes `task` the holder; 0 means no task. Returns ok, not_owner or corrupt.
  Code name_holder(const Lease& lease, std::uint32_t task) const noexcept;

  /// Finds the waiters that are next at this moment. A waiter does not stand aside if there are too few permits for it,
  /// or if the request is `fair`.
  Turn turn_of(World& world, bool fair) const noexcept;
  /// Chooses the first waiter, and the first waiter that stands aside, if there are enough permits for them. Returns
  /// the waiters to wake.
  Chosen offer(World& world) const noexcept;

 private:
  bool is_live_holder(const HolderList::Cursor& at, std::uint32_t flush) const noexcept;
  Code judge_holder(const HolderList::Cursor& at) const noexcept;
  bool has_live_holder(std::uint32_t flush) const noexcept;
  bool check_one(HolderList::Cursor& at, std::uint32_t flush, const TokenSet& dead,
                 std::uint64_t& next_end) const noexcept;
  void forget_holders() const noexcept;
  void make_room_for_end(std::uint64_t word) const noexcept;
};

}  // namespace holdfast
