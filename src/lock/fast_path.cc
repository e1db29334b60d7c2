#include "lock/fast_path.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/failpoint.h"
#include "dict/expiry.h"
#include "dict/lock_word.h"
#include "dict/wait_queue.h"
#include "lock/handoff.h"
#include "platform/platform.h"
#include "sync/shmtx.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// A lock that was found without the mutex. Pass a copy() to rarely used calls, so that the original stays in
/// registers. For the same reason, declare it without const, like other objects that a function returns: GCC keeps
/// const objects in memory. REQUIRES, as long as this object is used: an EpochGuard that began before the lock was
/// found.
struct LockRef {
  Segment* segment;
  const Shard* shard;
  std::uint64_t epoch;
  std::uint32_t index;  // of the shard
  std::uint32_t block;  // 0: none
  LockFields* lock;
  LockWord word;

  [[gnu::always_inline]] LockRef copy() const noexcept { return {segment, shard, epoch, index, block, lock, word}; }

  // Reads the word before comparing the epoch again, so the entry was in its chain when the word was read. Before the
  // entry is cut or moved later, the lock is taken over, so a compare-and-swap from this word fails.
  [[gnu::always_inline]] bool load(const Key& key) noexcept {
    lock = &shard->lock_of(block, key.length);
    return load();
  }
  [[gnu::always_inline]] bool load() noexcept {
    // Acquire: pairs with the release of the last owner, and of release_word().
    word = load_word_of(*lock, kAcquire);
    HOLDFAST_FAILPOINT("fast_path.loaded");
    return shard->unchanged_since(epoch);
  }
};

[[gnu::always_inline]] inline LockRef find(Segment* segment, std::string_view bytes) noexcept {
  LockRef found{};
  found.segment = segment;
  if (segment == nullptr) return found;
  const Key key(bytes, segment->seed());
  found.index = segment->index_of(key.hash);
  found.shard = &segment->shard_at(found.index);
  if (!found.shard->is_open()) return found;
  found.epoch = found.shard->epoch();
  found.block = found.shard->find_lock_block(key);
  if (found.block != 0 && !found.load(key)) found.block = 0;
  return found;
}

// Does the same as find(), but is not inlined, so that callers that rarely need it use fewer registers.
[[gnu::noinline]] LockRef find_cold(Segment* segment, std::string_view bytes) noexcept { return find(segment, bytes); }

// Does the same as find(). Does not compute a hash or walk along the chain if no memory was released since
// try_lock_fast() remembered the block.
[[gnu::always_inline]] inline bool find_cached(Dictionary& dictionary, Segment* segment, std::string_view bytes,
                                               std::uint64_t sequence, LockRef& found) noexcept {
  if (segment == nullptr) return false;
  LockPlace place = dictionary.lock_places().find(sequence);
  if (place.shard >= segment->geometry().shards) return false;
  found.segment = segment;
  found.shard = &segment->shard_at(place.shard);
  if (!found.shard->is_open()) [[unlikely]]
    return false;
  found.epoch = found.shard->epoch();
  const Key key(bytes);
  if (!place.is_of(found.epoch) || !found.shard->is_lock(place.block, key)) return false;
  found.index = place.shard;
  found.block = place.block;
  return found.load(key);
}

// Does the same as find() for a lock whose place the caller remembers: continues the read in which the place was found.
// The segment's number proves that the addresses are valid, and the epoch that the block is still in its chain, under
// the same key.
[[gnu::always_inline]] inline bool find_bound(Segment* segment, const BoundLock& bound, LockRef& found) noexcept {
  if (segment == nullptr || segment->number() != bound.segment) [[unlikely]]
    return false;
  found.segment = segment;
  found.shard = bound.shard;
  found.epoch = bound.epoch;
  found.block = static_cast<std::uint32_t>(bound.block);
  found.lock = bound.lock;
  return found.load();
}

// Returns whether the key leads to the lock with the word that was just stored. Call this if memory of the shard was
// released after the lock was found. To compare the position is not enough, because the key may have a new lock there.
[[gnu::cold]] bool is_still_there(std::string_view key, LockRef found, std::uint64_t mine) noexcept {
  const LockRef again = find_cold(found.segment, key);
  return again.block != 0 && again.lock == found.lock && again.word.unowned().bits == mine;
}

// Returns the process whose grant has not ended, or kNobody if there certainly is none; and the coarse time. For a lock
// behind a gate, only the gate knows this. Takes the members of a LockRef one by one, in registers: copying the object
// takes 5 ns. REQUIRES: the lock was found.
[[gnu::noinline]] Lease holder_of(const Segment& segment, const Shard& shard, std::uint64_t epoch, std::uint32_t block,
                                  const LockFields& lock, LockWord word) noexcept {
  if (segment.gate() != nullptr || word.is_free() || !is_complete(lock, word)) return {};
  // Continues the read of the word, as read_grant() does.
  const Token owner = owner_of(lock, word);
  const std::uint64_t expiry = shard.entry(block).expiry.load(kRelaxed);
  if (!shard.unchanged_since(epoch) || load_word_of(lock).unowned() != word.unowned()) return {};
  const std::uint64_t coarse_ns = platform::coarse_monotonic_ns();
  return is_live(expiry, segment.flush_epoch(), coarse_ns) ? Lease{owner, coarse_ns} : Lease{};
}

// Reverts our compare-and-swap, which may have hit reused memory. Returns false if another process has changed the
// word. In this case, the word belongs to a lock that the owner of the mutex has taken over.
bool put_back(LockRef found, std::uint64_t mine) noexcept {
  std::uint64_t expected = mine;
  return found.lock->word.compare_exchange_strong(expected, found.word.bits);
}

// Ends a grant whose lock another process took over before the grant could be put back. This shows that the word really
// belongs to a lock. The grant may count as complete by now, so no other grant may get its turn, and with it the same
// token.
[[gnu::cold]] void end_taken_over(Dictionary& dictionary, std::string_view key, LockRef found,
                                  std::uint64_t mine) noexcept {
  const LockWord free = LockWord::make(LockWord::kFreeOwner, LockWord{mine}.turn());
  const auto end_unowned = [&] {
    std::uint64_t expected = mine;
    return found.lock->word.compare_exchange_strong(expected, free.bits);
  };
  const Code code = dictionary.transact_in(*found.segment, key, [&](Transaction&) {
    std::uint64_t slow = LockWord{mine}.mutex_owned().bits;
    if (!end_unowned()) found.lock->word.compare_exchange_strong(slow, free.mutex_owned().bits);
    return Code::ok;
  });
  if (code != Code::ok) end_unowned();
}

// Returns whether the compare-and-swap from `held` released the right lock; if not, reverts it. The lock may be
// anywhere by now, but its word was taken over before it was moved. Takes no LockRef, so that the caller's LockRef
// stays in registers.
[[gnu::cold]] bool was_released(Dictionary& dictionary, std::string_view key, Segment& segment, LockFields& lock,
                                LockWord held) noexcept {
  LockRef found{};
  found.segment = &segment;
  found.lock = &lock;
  found.word = held;
  const std::uint64_t mine = LockWord::make(LockWord::kFreeOwner, held.turn()).bits;
  if (is_still_there(key, found.copy(), mine)) return true;
  bool there = false;
  bool undone = false;
  const Code code = dictionary.transact_in(segment, key, [&](Transaction& change) {
    there = change.is(EntryType::lock) && &change.view().lock() == &lock;
    undone = !there && put_back(found, mine);
    return Code::ok;
  });
  if (code != Code::ok) undone = put_back(found, mine);
  return there || !undone;
}

/// The present time, and the time at which a lease of `seconds` ends. A long lease begins at the time of the coarse
/// clock, which is five times faster to read, plus the largest lag of that clock. So the lease may end a little later,
/// but never earlier.
struct LeaseTimes {
  Since now;
  std::uint64_t end_ms;
};
[[gnu::always_inline]] inline LeaseTimes times_of_lease(double seconds) noexcept {
  constexpr double kLong = 10.0;  // The benchmark is "lock + unlock, same object"
  const bool exact = seconds > 0.0 && seconds < kLong;
  const std::uint64_t now = exact ? platform::monotonic_ns() : platform::coarse_monotonic_ns();
  return {exact ? Since::of(now) : Since::of_coarse(now),
          end_of_lease(seconds, exact ? now : now + kCoarseLagMs * kNsPerMs)};
}

// Writes the fields of the grant that was just taken.
[[gnu::always_inline]] inline void complete(const LockRef& found, Token self, double exptime,
                                            std::uint32_t holder_task) noexcept {
  std::atomic_thread_fence(kRelease);  // pairs with read_grant(): a reader of the stores below sees the new word
  LockFields& lock = *found.lock;
  LeaseTimes times = times_of_lease(exptime);
  lock.generation_high.store(generation_high(self), kRelaxed);
  lock.task.store(holder_task, kRelaxed);
  Since since = found.segment->statistics().since(times.now, found.word.turn() + 1);
  lock.since.store(since.bits, kRelaxed);
  found.shard->entry(found.block).expiry.store(expiry_word(times.end_ms, found.segment->flush_epoch()), kRelaxed);
  commit(lock.granted, found.word.turn() + 1);  // pairs with is_complete()
}

}  // namespace

// Takes the lock if its word says that it is free. A fair request takes the lock only if nobody waits. `kByKey`: the
// lock was found by its key, so also reports the holder, and notes the place. REQUIRES: the thread is not in a section,
// and has an EpochGuard that began before the lock was found.
template <bool kByKey>
[[gnu::always_inline]] static inline Fast take(Dictionary& dictionary, const LockRef& found, std::string_view key,
                                               Token self, double exptime, std::uint32_t holder_task, bool fair,
                                               Lease& lease) noexcept {
  enum class Result { taken, undone, taken_over } result = Result::taken;
  LockFields& lock = *found.lock;
  std::uint64_t expected = found.word.bits;
  const std::uint32_t turn = found.word.turn() + 1;
  if (expected != LockWord::make(LockWord::kFreeOwner, turn - 1).bits || !has_number(lock, found.word)) {
    if constexpr (!kByKey) return Fast::unclear;
    lease = holder_of(*found.segment, *found.shard, found.epoch, found.block, lock, found.word);
    return lease.owner != kNobody ? Fast::held : Fast::unclear;
  }
  if (fair && has_waiters(lock)) return Fast::unclear;
  HOLDFAST_FAILPOINT("fast_path.found");
  const std::uint64_t mine = LockWord::make(owner_bits(self), turn).bits;
  {
    // The section distinguishes a grant that is about to be completed from an overwritten one (mend_incomplete()).
    MutexlessSection section(dictionary.world(), self);
    // Acquire: as in load(), for the same word. The load alone is not enough, because a grant that was made and put
    // back in between leaves the same word.
    if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_acquire, kRelaxed)) return Fast::lost;
    HOLDFAST_FAILPOINT("fast_path.taken");
    // A grant in a dictionary that was removed before this moment does not count.
    const bool counts = !found.segment->was_removed_before_commit();
    if (counts && (found.shard->unchanged_since(found.epoch) || is_still_there(key, found.copy(), mine))) [[likely]] {
      // Read this before the grant is complete. After that it may expire, and the next grant may have another upper
      // half.
      lease = {self, std::uint64_t{lock.sequence_high.load(kRelaxed)} << 32 | turn};
      complete(found, self, exptime, holder_task);
    } else {
      // Do this inside the section. Otherwise, other processes assume that the grant was overwritten, and complete it.
      result = put_back(found.copy(), mine) ? Result::undone : Result::taken_over;
    }
  }
  if (result != Result::taken) [[unlikely]] {
    HOLDFAST_FAILPOINT("fast_path.undo");
    if (result == Result::taken_over) end_taken_over(dictionary, key, found.copy(), mine);
    return Fast::unclear;
  }
  if constexpr (kByKey) dictionary.lock_places().note(lease.sequence, {found.epoch, found.index, found.block});
  trace_acquire(dictionary, key, lease);
  return Fast::taken;
}

Fast try_lock_fast(Dictionary& dictionary, std::string_view key, Token self, double exptime, std::uint32_t holder_task,
                   bool fair, Lease& lease) noexcept {
  if (MutexlessSection::is_inside()) return Fast::unclear;
  EpochGuard inside;
  LockRef found = find(dictionary.segment(inside), key);
  if (found.block == 0) return Fast::unclear;
  return take<true>(dictionary, found, key, self, exptime, holder_task, fair, lease);
}

[[gnu::noinline]] static Fast take_cold(Dictionary& dictionary, const LockRef& found, std::string_view key, Token self,
                                        const Request& request, Lease& lease) noexcept {
  return take<true>(dictionary, found, key, self, request.exptime, request.holder_task, request.fair, lease);
}

Fast try_lock_and_bind(Dictionary& dictionary, std::string_view key, const Contender& contender,
                       BoundLock& bound) noexcept {
  if (MutexlessSection::is_inside()) return Fast::unclear;
  EpochGuard inside;
  const LockRef found = find_cold(dictionary.segment(inside), key);
  if (found.block == 0) return Fast::unclear;
  const Fast result = take_cold(dictionary, found, key, contender.self, contender.request, bound.lease);
  if (result == Fast::taken) {
    bound.segment = found.segment->number();
    bound.epoch = found.epoch;
    bound.shard = found.shard;
    bound.lock = found.lock;
    bound.block = BoundLock::block_of(found.block, contender.request.fair);
  }
  return result;
}

int lock_again(Dictionary& dictionary, std::string_view key, double exptime, std::uint32_t holder_task,
               BoundLock& bound) noexcept {
  const Token self = dictionary.world().known_token();
  if (self == kNobody || MutexlessSection::is_inside() || !(exptime >= 0.0)) [[unlikely]]
    return false;
  EpochGuard inside;
  LockRef found{};
  return find_bound(dictionary.segment(inside), bound, found) &&
         take<false>(dictionary, found, key, self, exptime, holder_task, bound.is_fair(), bound.lease) == Fast::taken;
}

namespace {

constinit SpinInterval spin_interval;

}  // namespace

Polled spin_for_lock(Dictionary& dictionary, std::string_view key, const Contender& contender, LockPolls& polls,
                     Lease& lease) noexcept {
  constexpr int kLeastIntervals = 2;  // intervals may be longer than the budget; no benchmark covers this constant
  if (MutexlessSection::is_inside()) return Polled::over;
  EpochGuard inside;
  LockRef found = find_cold(dictionary.segment(inside), key);
  bool may_be_open = !std::exchange(polls.opened, false);  // pause before the mutex is asked again
  for (;; ++polls.intervals) {
    if (found.block == 0) return Polled::over;
    const LockWord word = found.word;
    // Do not wait for a holder in this process, because it may be a task that waits for this thread.
    if (word.owner() == owner_bits(contender.self)) return Polled::over;
    // A fair request must not overtake a waiter, so it belongs in the queue.
    if (contender.request.fair && needs_mutex(*found.lock)) return Polled::over;
    // A waiter in the queue leaves it under the mutex.
    const bool is_queued = contender.waiter != nullptr && contender.waiter->place != 0 && has_waiters(*found.lock);
    if (word.is_free() && (word.is_mutex_owned() || is_queued)) {
      // An operation under the mutex ends soon. Waiters and other reasons for MUTEX_OWNED remain, and so does a gate.
      if (found.segment->gate() != nullptr) return Polled::over;
      polls.opened = may_be_open && needs_mutex(*found.lock);
      if (polls.opened) return Polled::open;
    } else if (word.is_free()) {
      // Take the lock immediately. During another search, its last owner could take it again.
      if (take_cold(dictionary, found, key, contender.self, contender.request, lease) == Fast::taken)
        return Polled::taken;
      lease = {};  // the holder's token, if another process was faster
    }
    may_be_open = true;
    polls.waited = true;
    if (polls.left <= 0 && polls.intervals >= kLeastIntervals) return Polled::over;
    // A holder that still has the lock is in a long section, so poll less often.
    const bool is_long = polls.policy.budget - polls.left >= kSpinBesideTasks.budget;
    const int learned = std::clamp(spin_interval.pauses(), polls.policy.first, polls.policy.longest);
    const int interval = is_long ? polls.policy.longest : learned;
    Spin::pause_for(interval);
    polls.left -= interval;
    if (!found.load(Key(key))) found = find_cold(found.segment, key);
    if (!is_long && found.block != 0) spin_interval.note(found.word.turn() - word.turn(), interval);
  }
}

bool is_held_for_certain(Dictionary& dictionary, std::string_view key) noexcept {
  EpochGuard inside;
  const LockRef found = find_cold(dictionary.segment(inside), key);
  if (found.block == 0) return false;
  const Token holder = holder_of(*found.segment, *found.shard, found.epoch, found.block, *found.lock, found.word).owner;
  return holder != kNobody && dictionary.world().judge(holder) == Liveness::alive;
}

// Returns whether the lock may be released although there are waiters: the first of them is already coming, and others
// may still overtake it.
[[gnu::noinline]] bool may_pass(LockRef found) noexcept {
  return is_first_coming(*found.shard, found.lock->queue, kOvertakeNs);
}

// Releases the lease if no waiter must be woken. `look(Segment*, LockRef&) -> bool` finds the lock.
template <class Look>
[[gnu::always_inline]] static inline bool release(Dictionary& dictionary, std::string_view key, const Lease& lease,
                                                  Look&& look) noexcept {
  EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  LockRef found{};
  if (!look(segment, found)) return false;
  LockFields& lock = *found.lock;
  const auto turn = static_cast<std::uint32_t>(lease.sequence);
  std::uint64_t expected = LockWord::make(owner_bits(lease.owner), turn).bits;
  const std::uint64_t expiry = found.shard->entry(found.block).expiry.load(kRelaxed);
  if (found.word.bits != expected || sequence_of(lock, found.word) != lease.sequence ||
      !is_complete(lock, found.word) || is_flushed(expiry, found.segment->flush_epoch()))
    return false;
  if (has_waiters(lock) && !may_pass(found.copy())) [[unlikely]]
    return false;
  // Read this now, because the next grant overwrites it.
  const Since since{lock.since.load(kRelaxed)};
  HOLDFAST_FAILPOINT("fast_path.checked");
  // Release: the next owner sees what was done while the lock was held.
  const std::uint64_t mine = LockWord::make(LockWord::kFreeOwner, turn).bits;
  if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_release, kRelaxed)) return false;
  HOLDFAST_FAILPOINT("fast_path.released");
  if (!found.shard->unchanged_since(found.epoch) && !was_released(dictionary, key, *found.segment, lock, found.word))
      [[unlikely]]
    return false;
  found.segment->statistics().count_hold(HeldKind::lock, since);
  trace_release(dictionary, key, lease);
  return true;
}

bool unlock_fast(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  return release(dictionary, key, lease, [&](Segment* segment, LockRef& found) HOLDFAST_INLINE {
    if (find_cached(dictionary, segment, key, lease.sequence, found)) [[likely]]
      return true;
    found = find_cold(segment, key);
    return found.block != 0;
  });
}

int unlock_again(Dictionary& dictionary, std::string_view key, BoundLock& bound) noexcept {
  if (bound.lease.owner != dictionary.world().known_token() || bound.lease.owner == kNobody) [[unlikely]]
    return false;
  const bool released = release(dictionary, key, bound.lease, [&](Segment* segment, LockRef& found) HOLDFAST_INLINE {
    return find_bound(segment, bound, found);
  });
  if (released) [[likely]]
    bound.lease = {};
  return released;
}

}  // namespace holdfast
