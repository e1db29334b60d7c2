// A transaction changes one key while the mutex of its shard is held. It refers to the key's entry, and provides the
// operations on this entry. Dictionary::transact() makes a transaction and runs an operation on it.
//
// An operation commits by one store, or returns before it has changed anything, for example Code::corrupt when it has
// found damage.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dict/arena.h"
#include "dict/expiry.h"
#include "dict/key.h"
#include "dict/reclaimer.h"
#include "dict/segment.h"
#include "dict/shard.h"

namespace holdfast {

class World;

/// Records when an entry ends. `reclaim_after` must not be later than the earliest end, because a sweep before
/// `reclaim_after` is skipped.
inline void note_end(const Shard& shard, std::uint64_t end_ms) noexcept {
  Word64& reclaim_after = shard.header().reclaim_after;
  if (end_ms != kExpiryNever && end_ms < reclaim_after.load(kRelaxed)) reclaim_after.store(end_ms, kRelaxed);
}

class Transaction {
 public:
  /// Makes a transaction. REQUIRES: the mutex of `shard`, the key's shard, is held while the transaction exists.
  Transaction(World& world, Segment& segment, Shard& shard, const Key& key) noexcept
      : world_(world), segment_(segment), shard_(shard), key_(key), arena_(shard) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  World& world() const noexcept { return world_; }
  Segment& segment() const noexcept { return segment_; }
  Shard& shard() const noexcept { return shard_; }
  Arena& arena() noexcept { return arena_; }
  const Key& key() const noexcept { return key_; }
  std::uint32_t flush_epoch() const noexcept { return segment_.flush_epoch(); }

  /// Looks the key up, and takes over its lock (dict/lock_word.h). Returns false on damage. REQUIRED before all calls
  /// below.
  bool find() noexcept {
    if (!shard_.find(key_, position_)) [[unlikely]]
      return false;
    if (is(EntryType::lock)) take_over_found();
    return true;
  }
  /// Finishes the transaction. REQUIRED at the end, unless there is damage.
  // A lock behind a gate stays MUTEX_OWNED, so that no process takes it without asking the gate.
  void end() noexcept {
    if (is(EntryType::lock) && segment_.gate() == nullptr) release_word(view().lock());
  }
  /// Names an incomplete grant whose owner is dead, so that find() ends the grant.
  void give_up_on(LockWord grant) noexcept { abandoned_ = grant; }
  /// Returns the incomplete grant that made an operation return `timeout`. If the word is_free(), there was no such
  /// grant.
  LockWord in_the_way() const noexcept { return in_the_way_; }
  /// Returns whether the key has an entry, even an expired, flushed or free one.
  bool found() const noexcept { return position_.block != 0; }
  /// Returns whether the key has a live value, or locks or permits that are held.
  bool exists() const noexcept { return found() && Shard::counts(view(), flush_epoch()); }
  bool is(EntryType type) const noexcept { return found() && view().type == type; }
  const EntryView& view() const noexcept { return position_.view; }

  /// Records that the entry was used, which delays its eviction.
  void touch() const noexcept { shard_.touch(position_.block); }

  /// Adds an entry, or replaces the existing entry. If a lock or permits are replaced by a lock or permits, the waiters
  /// stay. Afterwards, the new entry is the entry found. Returns ok, no_memory, too_large, corrupt, or timeout because
  /// of in_the_way().
  Code put(const ValueIn& value, std::uint64_t end_ms, Evict evict) noexcept;
  /// Does the same as put(), but overwrites a number with a number, or a boolean with a boolean, by one store to its
  /// word.
  Code write(const ValueIn& value, std::uint64_t end_ms, Evict evict) noexcept;
  /// Removes the entry. Returns ok, or timeout because of in_the_way(). REQUIRES: found().
  Code cut() noexcept;
  /// Makes sure that `granules` can be allocated in one block. Finds the entry again, because entries move. Returns ok,
  /// no_memory, too_large or corrupt.
  Code make_room(std::uint32_t granules, Evict evict) noexcept;

  /// Commits a change of the key's value by one store.
  template <class T, class V>
  void commit_value(std::atomic<T>& where, V value) const noexcept {
    commit_change(shard_.stripes(), key_.short_hash(), where, value);
  }

  /// Returns whether a live entry of another key was removed to make room.
  bool evicted() const noexcept { return evicted_; }

  /// Returns whether the key's entry may now be released, or changed by a process other than its lock's owner. Waits
  /// briefly while the owner is about to write into the entry. If this returns false, the operation must return
  /// timeout, and in_the_way() returns the owner's grant.
  bool is_settled() noexcept { return !is(EntryType::lock) || is_lock_settled(); }

 private:
  bool is_lock_settled() noexcept;
  /// Commits a new entry, which replaces the key's entry or ends the chain.
  void link(std::uint32_t block, EntryType type) const noexcept;
  void link_with_version(std::uint32_t block, EntryType type) const noexcept;
  /// Releases the memory of an entry that was just cut from its chain.
  void discard(std::uint32_t block, const EntryView& view) noexcept;
  void take_over_found() noexcept;

  World& world_;
  Segment& segment_;
  Shard& shard_;
  const Key& key_;
  Arena arena_;
  Position position_;
  bool evicted_ = false;
  LockWord abandoned_{LockWord::kNone};
  LockWord in_the_way_{LockWord::kNone};
};

// --- inline: the whole path of overwriting a number with a number ---

/// Returns whether storing the value would change only the word of a number or a boolean in this entry.
inline bool differs_by_a_word(const EntryView& view, const ValueIn& value, std::uint64_t expiry) noexcept {
  return view.type == value.type && (value.type == EntryType::number || value.type == EntryType::boolean) &&
         view.entry->flags.load(kRelaxed) == value.flags && view.entry->expiry.load(kRelaxed) == expiry;
}

inline Code Transaction::write(const ValueIn& value, std::uint64_t end_ms, Evict evict) noexcept {
  if (found() && differs_by_a_word(view(), value, expiry_word(end_ms, flush_epoch()))) {
    commit_value(*view().value(), value.bits);
    touch();
    return Code::ok;
  }
  return put(value, end_ms, evict);
}

}  // namespace holdfast
