// The entry of a lock: each operation commits with a single store, which grants the lock or ends a grant.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <algorithm>
#include <atomic>
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
#include "lock/request.h"
#include "platform/platform.h"

namespace holdfast {

/// Adds `change` to the shard's count of permits entries that have no holder. Their memory can be reclaimed.
inline void count_free_permits(const Shard& shard, std::uint32_t change) noexcept {
  Word32& count = shard.header().perhaps_free;
  count.store(count.load(kRelaxed) + change, kRelaxed);
}

/// Returns whether the lease belongs to the current grant. REQUIRES: the lease belongs to this process.
inline bool is_held_by(const LockFields& lock, const Lease& lease) noexcept {
  const LockWord word = load_word_of(lock);
  return word.owner() == owner_bits(lease.owner) && sequence_of(lock, word) == lease.sequence;
}

/// The size of the first block of fencing tokens. It is small, because many keys are locked only once. No benchmark
/// covers this constant, because none measures the first grant of a key.
inline constexpr std::uint32_t kFirstNumbers = 16;
/// The delay before an incomplete grant is checked again. No benchmark covers this constant, because none stops the
/// owner.
inline constexpr std::uint64_t kIncompleteMs = 10;

/// The minimum size of the value of a lock behind a gate.
inline constexpr std::uint32_t kLockAndGate = sizeof(LockFields) + sizeof(GateFields);

/// Returns the gate's fields of the lock, or null if the dictionary is plain or the lock is damaged.
inline GateFields* gate_fields_of(const Segment& segment, std::uint32_t value_size, LockFields& lock) noexcept {
  const bool there = segment.gate() != nullptr && value_size >= kLockAndGate;
  return there ? reinterpret_cast<GateFields*>(&lock + 1) : nullptr;
}
/// Returns whether the gate allows a grant of the lock now. In a plain dictionary, always returns true. `fields` comes
/// from gate_fields_of().
inline bool may_grant(const Segment& segment, const GateFields* fields) noexcept {
  return segment.gate() == nullptr || (fields != nullptr && segment.gate()->may_grant(segment, *fields));
}
/// Returns whether the gate considers the current grant valid. In a plain dictionary, always returns true.
inline bool does_grant_count(const Segment& segment, const GateFields* fields) noexcept {
  return segment.gate() == nullptr || (fields != nullptr && segment.gate()->seconds_left(segment, *fields) > 0);
}

/// A lock in a transaction. REQUIRES: the lock is taken over (dict/lock_word.h); the transaction does this.
struct LockEntry {
  /// Returns the lock that the transaction found. REQUIRES: it found a lock.
  static LockEntry of(Transaction& change) noexcept {
    const EntryView& view = change.view();
    return {change.segment(), change.shard(), change.arena(),
            *view.entry,      view.lock(),    gate_fields_of(change.segment(), view.value_size, view.lock())};
  }

  /// Returns whether the transaction found a lock that has all its fields.
  static bool is_whole(Transaction& change) noexcept {
    return change.is(EntryType::lock) &&
           (change.segment().gate() == nullptr ||
            gate_fields_of(change.segment(), change.view().value_size, change.view().lock()) != nullptr);
  }

  Segment& segment;
  Shard& shard;
  Arena& arena;
  Entry& entry;
  LockFields& fields;
  GateFields* gate;  // from gate_fields_of()

  LockWord word() const noexcept { return load_word_of(fields); }
  /// Returns the owner, or kNobody if the lock is free.
  Token owner() const noexcept { return owner_of(segment.world(), fields); }
  bool is_free() const noexcept { return word().is_free(); }
  /// Returns the fencing token of the current grant, or of the last grant if the lock is free.
  std::uint64_t sequence() const noexcept { return sequence_of(fields, word()); }
  /// Returns when the current grant ends (ms). An incomplete grant has no end yet, so the result is then a time shortly
  /// after now, when the caller must check again.
  std::uint64_t end_ms() const noexcept {
    return is_complete(fields, word()) ? expiry_ms(entry.expiry.load(kRelaxed))
                                       : platform::coarse_monotonic_ns() / 1'000'000 + kIncompleteMs;
  }
  bool live(std::uint32_t flush) const noexcept {
    return !is_complete(fields, word()) || is_live(entry.expiry.load(kRelaxed), flush);
  }
  bool flushed() const noexcept { return is_flushed(entry.expiry.load(kRelaxed), segment.flush_epoch()); }
  WaitQueue queue() const noexcept { return {shard, arena, fields.queue}; }
  bool has_waiters() const noexcept { return fields.queue.head.load(kRelaxed) != 0; }
  WaitQueue watchers() const noexcept { return {shard, arena, fields.watchers, EntryType::watcher}; }
  bool has_watchers() const noexcept { return fields.watchers.head.load(kRelaxed) != 0; }
  bool held_by(const Lease& lease) const noexcept { return is_held_by(fields, lease); }
  bool may_be_granted() const noexcept { return may_grant(segment, gate); }
  bool grant_counts() const noexcept { return does_grant_count(segment, gate); }

  /// Changes the time at which the lease ends. `flush` is the flush epoch in which the lease was found live, so that a
  /// later flush still ends the lease.
  void extend(std::uint64_t end_ms, std::uint32_t flush) const noexcept {
    commit(entry.expiry, expiry_word(end_ms, flush));
  }

  /// Grants the free lock to `owner`, and returns the fencing token of the grant. `reserved` is the number of the
  /// waiter that must claim the lock, or 0 if the lock is already claimed.
  // Write all fields of a grant while the lock is free; the store of the word is the commit. A reserved lock is not
  // held before it is claimed.
  std::uint64_t grant(Token owner, const Request& request, std::uint32_t reserved) const noexcept {
    const bool is_coarse = request.exptime == 0.0;
    const std::uint64_t now = is_coarse ? platform::coarse_monotonic_ns() : platform::monotonic_ns();
    // This fence pairs with read_grant(): a reader that sees a store below also sees that the last grant has ended.
    std::atomic_thread_fence(kRelease);
    const NextNumber next = next_number();
    const auto turn = static_cast<std::uint32_t>(next.sequence);
    fields.generation_high.store(generation_high(owner), kRelaxed);
    fields.reserved.store(reserved, kRelaxed);
    fields.task.store(request.holder_task, kRelaxed);
    const Since since = reserved != 0
                            ? Since::of(now)
                            : segment.statistics().since(is_coarse ? Since::of_coarse(now) : Since::of(now), turn);
    fields.since.store(since.bits, kRelaxed);
    entry.expiry.store(expiry_word(end_of_lease(request.exptime, now), segment.flush_epoch()), kRelaxed);
    fields.granted.store(turn, kRelease);
    crash_order();
    commit(fields.word, LockWord::make(owner_bits(owner), turn).mutex_owned().bits);
    // The limit is stored after the word. If the process dies in between, the turn is beyond the limit, and the next
    // grant takes another block. In the other order, the old turn and the new limit would make tokens of other locks
    // look unused.
    fields.limit.store(next.limit, kRelaxed);
    return next.sequence;
  }

  /// Makes `task` the holder; 0 means no task.
  // The release order pairs with blocker_of_lock(): a reader that sees this task also sees the sequence of its grant.
  void name_holder(std::uint32_t task) const noexcept { fields.task.store(task, kRelease); }

  /// Ends the grant and removes its reason.
  void free() const noexcept {
    end_grant_of(fields);
    if (fields.reason.load(kRelaxed) != 0) [[unlikely]]
      HolderList(shard, arena, fields.reason, entry.hash.load(kRelaxed)).clear();
  }

 private:
  struct NextNumber {
    std::uint64_t sequence;
    std::uint32_t limit;  // the last turn of the block that contains the number
  };
  // Sets the limit so that the fast path has no numbers left.
  NextNumber next_number_of_gate() const noexcept {
    const std::uint64_t number = segment.gate()->next_number(*gate);
    fields.sequence_high.store(static_cast<std::uint32_t>(number >> 32), kRelaxed);
    return {number, static_cast<std::uint32_t>(number)};
  }
  NextNumber next_number() const noexcept {
    if (gate != nullptr) [[unlikely]]
      return next_number_of_gate();
    const std::uint64_t before = sequence();
    if (has_number(fields, word())) return {before + 1, fields.limit.load(kRelaxed)};
    const Numbers numbers = next_numbers(segment, before, before == 0 ? kFirstNumbers : kBlockNumbers);
    // All tokens of a block have the same upper half.
    const std::uint64_t last = std::min(numbers.last, numbers.first | 0xFFFF'FFFF);
    fields.sequence_high.store(static_cast<std::uint32_t>(numbers.first >> 32), kRelaxed);
    return {numbers.first, static_cast<std::uint32_t>(last)};
  }
};

/// Checks the lease before an operation changes its grant. Returns ok if the lease belongs to the current grant, and
/// this grant is complete; not_owner if the lease does not belong to this grant; not_found if nobody holds the lock;
/// timeout if the owner is about to write the grant's fields. In that case, the operation must also return
/// timeout, so that it runs again (Transaction::is_settled()). REQUIRES: the transaction found a lock.
// An expired lease belongs to the current grant until another grant replaces this grant.
inline Code judge_grant(Transaction& change, const Lease& lease) noexcept {
  const LockEntry lock = LockEntry::of(change);
  if (lock.is_free()) return Code::not_found;
  if (!lock.held_by(lease)) return lock.live(change.flush_epoch()) ? Code::not_owner : Code::not_found;
  return change.is_settled() ? Code::ok : Code::timeout;
}

}  // namespace holdfast
