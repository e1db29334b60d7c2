// The entry of permits: the single stores that grant permits and give them back.
//
// The chain of holder records is the truth; `used`, the sum of their counts, follows from it. A walk along the chain
// takes time for each holder, so grants use only `used` if possible. Only when there seem to be too few permits, a
// check of the chain removes the records that have expired, were flushed or belong to a dead process.
//
// If there are few holders, each such attempt checks them all, by purge(). If there are many, it checks only some of
// them, until a check of all is due: when one of them ends, or after a while. One attempt claims this check and checks
// a part of them at a time, with the mutex released in between (lock/permits.cc).
//
// REQUIRES, for every call: the shard's mutex.
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

/// Up to this many holders are checked in one section. Benchmarks: Many holders of one key, which has both ways.
inline constexpr std::uint32_t kFewHolders = TokenSet::kMax;

/// A check of many holders, and its progress.
struct HolderCheck {
  static constexpr std::uint64_t kFirst = ~std::uint64_t{0};
  std::uint64_t next = kFirst;  // it continues at the holder with this fencing number; 0: it is over
  std::uint64_t next_end = kNever;
  bool removed = false;                // some records did not count
  std::array<Token, kSlots> owners{};  // by slot, one of the owners seen

  void see(Token owner) noexcept {
    if (slot_of(owner) < kSlots) owners[slot_of(owner)] = owner;
  }
};

inline HeldKind held_kind(PermitsKind kind) noexcept {
  return kind == PermitsKind::rwlock ? HeldKind::rwlock : HeldKind::semaphore;
}

/// REQUIRES: it is not `lock`.
inline PermitsKind permits_kind(HeldKind kind) noexcept {
  return kind == HeldKind::rwlock ? PermitsKind::rwlock : PermitsKind::semaphore;
}

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
  HeldKind kind() const noexcept { return held_kind(static_cast<PermitsKind>(entry.flags.load(kRelaxed))); }
  HolderList holders() const noexcept { return {shard, arena, fields, entry.hash.load(kRelaxed)}; }
  /// Returns whether that many permits are free, by `used`.
  bool has(std::uint32_t want) const noexcept {
    return std::uint64_t{fields.used.load(kRelaxed)} + want <= fields.total.load(kRelaxed);
  }

  /// Returns whether `used` is less than the count of the first holder record, so it was overwritten. While a writer
  /// holds, this shows every decrease. While readers hold, it shows a `used` of 0, which would let a writer in.
  bool is_understated() const noexcept {
    const HolderList chain = holders();
    if (chain.empty()) return false;
    const HolderList::Cursor first(chain);
    return first.found() && fields.used.load(kRelaxed) < first.fields().count.load(kRelaxed);
  }

  // The calls that walk the chain may meet damage: check arena.damaged() after them.

  bool has_few_holders() const noexcept { return fields.number.load(kRelaxed) <= kFewHolders; }

  /// Removes the records that no longer count, and collects the owners of the others, as many as fit. Returns when the
  /// next record expires (ms); kExpiryNever: none does.
  std::uint64_t purge(std::uint32_t flush, const TokenSet& dead, TokenSet& owners) const noexcept;
  /// With many holders: whether it is time to check all of them, or `at_once`. If true, the caller must do so, by
  /// check_some(). Others do not check in the meantime.
  bool claim_check(bool at_once) const noexcept;
  /// Checks `max` more holders.
  void check_some(HolderCheck& check, std::uint32_t flush, const TokenSet& dead, std::uint32_t max) const noexcept;
  /// Returns when an attempt may check all of many holders because one has expired (ms); kExpiryNever: none expires.
  std::uint64_t next_check_ms() const noexcept;
  /// Collects owners of all holders, but of no more than `max`.
  void collect_owners(TokenSet& owners, std::uint32_t max = kFewHolders) const noexcept;
  /// Returns whether a record with this fencing number, or a smaller one, counts.
  bool has_holder_up_to(std::uint64_t grant, std::uint32_t flush, const TokenSet& dead) const noexcept;
  /// Returns the largest fencing number of a record that counts; 0: there is none.
  std::uint64_t newest_grant(std::uint32_t flush, const TokenSet& dead) const noexcept;

  /// Adds a filled holder record. REQUIRES: `holder.expiry` belongs to this epoch.
  void add(std::uint32_t block, const Holder& holder) const noexcept;
  /// Records the holder with which a new entry was made.
  void note_first(std::uint32_t block, const Holder& holder) const noexcept;

  /// Gives back the lease's permits; `since` says since when it had them. ok, not_owner, corrupt. Call offer() after
  /// it.
  Code give_back(const Lease& lease, Since& since) const noexcept;
  /// Gives back all of the lease's permits but `count`. ok, not_owner, corrupt, invalid (`count` is 0, or more than the
  /// lease has).
  Code keep(const Lease& lease, std::uint32_t count) const noexcept;
  /// Gives the lease another end; `before_ms` becomes its previous end. ok, not_owner, corrupt, not_found (no process
  /// has permits).
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
  bool check_one(HolderList::Cursor& at, std::uint32_t flush, const TokenSet& dead,
                 std::uint64_t& next_end) const noexcept;
  void forget_holders() const noexcept;
  void make_room_for_end(std::uint64_t word) const noexcept;
};

}  // namespace holdfast
