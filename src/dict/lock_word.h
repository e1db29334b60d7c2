// The word of a lock contains the lock's owner, and part of the grant's fencing token. A compare-and-swap of this word
// takes a free lock, and another releases it, without the mutex of the shard (lock/fast_path.h). All other changes are
// made under the mutex, with the bit MUTEX_OWNED set:
//
// - While MUTEX_OWNED is clear, the word changes only by a compare-and-swap from the exact word, or by take_over().
// - take_over() sets MUTEX_OWNED. From then on the word belongs to the owner of the mutex, which may use plain stores.
//   release_word() clears it, unless the lock has something that a release must see: waiters, watchers, a reason, a
//   reserved grant. The next operation under the mutex clears a MUTEX_OWNED bit that a dead process has left.
// - let_pass() clears it although there are waiters, when the first of them was woken and has not responded yet
//   (lock/handoff.h). The next operation under the mutex, such as that waiter's attempt, sets it again.
// - The turn is the lower half of the grant's fencing token. So no two grants of a lock have the same word.
// - The fields of a grant are valid once `granted` equals its turn. From the compare-and-swap until then, only the
//   owner of the lock writes them; afterwards, only the owner of the mutex does. In between, the grant is incomplete:
//   the lock is held, and its entry must not be moved or released unless the owner is dead.
// - An entry is cut from its chain or moved only while it is MUTEX_OWNED, and the word in the memory that it leaves
//   stays MUTEX_OWNED. So a process that still uses that memory does not change anything there. In case the memory is
//   reused at the same moment, FREE contains bits that other content is unlikely to have.
//
// Each store into a lock under the mutex comes after take_over(). The table says why the owner of the lock does not
// write to the same word at the same time. tests/mutants violates most of these reasons.
//
//   store under the mutex                            | why the owner does not write to the same word
//   -------------------------------------------------+------------------------------------------------------------
//   word set to free, by `unlock` and `break`;       | judge_grant() refuses an incomplete grant with `timeout`
//   expiry, by `renew`; task, by `adopt`; reason     |
//   dead owner's word set to free                    | exactly this owner was found dead
//   word of an expired or flushed grant set to free  | an incomplete grant has no expiry
//   word of an unclaimed reserved grant set to free  | the grant was made under the mutex
//   all fields of a new grant; word set to its owner | the lock is free
//   expiry, by `expire`; link to the entry, when a   | is_settled() refuses an incomplete grant
//   value replaces the lock or the key is deleted    |
//   link to the entry, when a sweep removes or moves | an incomplete grant counts as held and is pinned
//   the entry                                        |
//   `granted`, when the word was overwritten         | no thread of the owner is inside a critical section
//   (mend_incomplete())                              |
//   queue, watchers and count of overtakes           | these are not fields of a grant
//   every store by the agent into a cluster lock     | the word stays taken over, so the lock has no fast path
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "base/token.h"
#include "dict/layout.h"
#include "sync/spin.h"

namespace holdfast {

class World;

/// The word of a lock:
///
///   bit  63      MUTEX_OWNED
///   bits 62..32  the owner's bits (base/token.h), or kFreeOwner
///   bits 31..0   turn: the lower half of the fencing token of this grant; of a free lock: of the last one
struct LockWord {
  std::uint64_t bits;

  static constexpr std::uint64_t kMutexOwned = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kNone = 0;  // a word that does not belong to a grant, and does not name a process
  /// Owner bits of a slot that no process has.
  static constexpr std::uint32_t kFreeOwner = 0x7FFU << kOwnerSlotShift | 0x5C3A9;

  static constexpr LockWord make(std::uint32_t owner, std::uint32_t turn) noexcept {
    return {std::uint64_t{owner} << 32 | turn};
  }
  constexpr LockWord mutex_owned() const noexcept { return {bits | kMutexOwned}; }
  constexpr LockWord unowned() const noexcept { return {bits & ~kMutexOwned}; }
  constexpr bool is_mutex_owned() const noexcept { return (bits & kMutexOwned) != 0; }
  constexpr std::uint32_t owner() const noexcept { return static_cast<std::uint32_t>(bits >> 32 & kOwnerMask); }
  constexpr std::uint32_t turn() const noexcept { return static_cast<std::uint32_t>(bits); }
  /// Returns whether the word does not name a process. This may also be true of an overwritten word that is not FREE.
  constexpr bool is_free() const noexcept { return slot_of_owner(owner()) >= kOwnerSlots; }
  constexpr bool operator==(const LockWord&) const = default;

 private:
  static constexpr std::uint32_t kOwnerSlots = 1024;  // the number of slots (world/process_table.h)
};

inline LockWord load_word_of(const LockFields& lock, std::memory_order order = kRelaxed) noexcept {
  return {lock.word.load(order)};
}

/// Returns the fencing token of the grant with this word. REQUIRES: the word was loaded from this lock.
inline std::uint64_t sequence_of(const LockFields& lock, LockWord word) noexcept {
  return std::uint64_t{lock.sequence_high.load(kRelaxed)} << 32 | word.turn();
}

/// Returns whether the fields belong to the grant with this word.
// The acquire order pairs with the release store of `granted`, which the owner makes after storing the fields.
inline bool is_complete(const LockFields& lock, LockWord word) noexcept {
  return lock.granted.load(kAcquire) == word.turn();
}

constexpr std::uint32_t generation_high(Token owner) noexcept {
  return static_cast<std::uint32_t>(generation_of(owner) >> kOwnerSlotShift);
}

/// Returns the owner of a complete grant.
inline Token owner_of(const LockFields& lock, LockWord word) noexcept {
  const std::uint64_t high = lock.generation_high.load(kRelaxed);
  return make_token(slot_of_owner(word.owner()), high << kOwnerSlotShift | generation_of_owner(word.owner()));
}

/// Returns the owner, or kNobody if the lock is free. If the grant is incomplete, returns the process that now has the
/// owner bits of the word.
Token owner_of(World& world, const LockFields& lock) noexcept;

/// The most fencing tokens in a block; a block may have fewer. The benchmark is "lock + unlock, same object".
inline constexpr std::uint32_t kBlockNumbers = 1024;
/// Returns whether the lock's block has a token for the next turn. If a process died while it wrote a new block, the
/// limit is behind the word's turn, and the difference is too large.
inline bool has_number(const LockFields& lock, LockWord word) noexcept {
  return lock.limit.load(kRelaxed) - word.turn() - 1 < kBlockNumbers;
}

/// A grant that was read without the mutex.
struct SeenGrant {
  LockWord word;
  bool complete;           // if false, the lock is held, has no end yet, and only the word is known
  Token owner;             // if complete
  std::uint64_t sequence;  // fencing token
  std::uint32_t task;      // if complete
  std::uint64_t expiry;    // if complete: the entry's word
};

/// Reads the grant of a lock. Returns false if the grant changed in the meantime; even then, the word is valid for one
/// moment.
// The fields of a later grant are written after a release fence, which follows the change of the word. So a reader that
// sees such a field also sees the changed word after the acquire fence.
inline bool read_grant(const Entry& entry, const LockFields& lock, SeenGrant& seen) noexcept {
  seen.word = load_word_of(lock, kAcquire);
  seen.complete = is_complete(lock, seen.word);
  seen.owner = seen.word.is_free() ? kNobody : owner_of(lock, seen.word);
  seen.sequence = sequence_of(lock, seen.word);
  seen.task = lock.task.load(kRelaxed);
  seen.expiry = entry.expiry.load(kRelaxed);
  std::atomic_thread_fence(kAcquire);
  return load_word_of(lock).unowned() == seen.word.unowned();
}

/// Returns the owner, as owner_of(world, lock) does.
Token owner_of(World& world, const SeenGrant& seen) noexcept;

// REQUIRES, for all calls below: the shard's mutex.

/// Makes the owner of the mutex the owner of the word, and returns the word's previous value.
// The acquire order makes visible what the last owner did on the fast path. The release order makes sure that a process
// that sees MUTEX_OWNED also sees the stores before it.
inline LockWord take_over(LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock, kAcquire);
  // A word with MUTEX_OWNED already belongs to the owner of the mutex.
  return word.is_mutex_owned() ? word : LockWord{lock.word.fetch_or(LockWord::kMutexOwned, std::memory_order_acq_rel)};
}

/// Completes a grant that its owner has completed, but that looks incomplete because one of its words was overwritten.
/// REQUIRES: the lock is taken over.
void mend_incomplete(World& world, LockFields& lock) noexcept;

/// Returns whether there are waiters. Without the mutex the result is a hint.
// But a process that has taken the lock on the fast path sees the waiters that it has passed, because its acquire pairs
// with the release in let_pass().
inline bool has_waiters(const LockFields& lock) noexcept { return lock.queue.head.load(kRelaxed) != 0; }

/// Returns whether the lock has something besides waiters that each operation must see.
inline bool needs_mutex_anyway(const LockFields& lock) noexcept {
  return lock.watchers.head.load(kRelaxed) != 0 || lock.reason.load(kRelaxed) != 0 || lock.reserved.load(kRelaxed) != 0;
}

/// Returns whether the lock has something that each operation must see. Without the mutex the result is a hint.
inline bool needs_mutex(const LockFields& lock) noexcept { return has_waiters(lock) || needs_mutex_anyway(lock); }

/// Gives the word back to all processes. REQUIRES: the caller has taken the lock over.
// A process that died while it granted the lock may have left the turn of that grant in `granted`. The next grant with
// that turn must begin incomplete. The release order pairs with the compare-and-swap of the fast path.
inline void give_word_back(LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock);
  if (word.is_free()) lock.granted.store(word.turn(), kRelaxed);
  commit(lock.word, word.unowned().bits);
}

/// Gives the word back to all processes, unless the lock has something that each operation must see. REQUIRES: the
/// caller has taken the lock over.
inline void release_word(LockFields& lock) noexcept {
  if (!needs_mutex(lock)) give_word_back(lock);
}

/// Gives the word of a free lock back to all processes although there are waiters. Afterwards, the caller stores
/// nothing into the lock, and removes no waiter. REQUIRES: the first waiter was woken; the caller has taken the lock
/// over.
inline void let_pass(LockFields& lock) noexcept {
  if (!needs_mutex_anyway(lock)) give_word_back(lock);
}

/// Ends a grant. REQUIRES: the lock is taken over, and the grant is complete or its owner is dead.
// The release order makes sure that a process that takes the free lock sees what its last owner did.
inline void end_grant_of(LockFields& lock) noexcept {
  commit(lock.word, LockWord::make(LockWord::kFreeOwner, load_word_of(lock).turn()).mutex_owned().bits);
}

/// Waits briefly until an incomplete grant is complete. Returns false if it stays incomplete. REQUIRES: the lock is
/// taken over.
inline bool wait_until_complete(const LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock);
  if (word.is_free()) return true;
  for (Spin spin(kSpinForCompletion);;) {
    if (is_complete(lock, word)) [[likely]]
      return true;
    if (!spin.pause()) return false;
  }
}

}  // namespace holdfast
