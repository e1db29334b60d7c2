#include "lock/quiet.h"

#include <atomic>
#include <utility>

#include "base/failpoint.h"
#include "dict/expiry.h"
#include "dict/lock_word.h"
#include "lock/look_interval.h"
#include "lock/trace.h"
#include "platform/platform.h"
#include "sync/shmtx.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// A lock that was found without the mutex. Calls that are rare take a copy(): so it stays in registers. REQUIRES, as
/// long as it is used: an EpochGuard from before it was found.
struct Glimpsed {
  Segment* segment;
  const Shard* shard;
  std::uint64_t epoch;
  std::uint32_t index;  // of the shard
  std::uint32_t block;  // 0: there is none
  LockFields* lock;
  LockWord word;

  [[gnu::always_inline]] Glimpsed copy() const noexcept { return {segment, shard, epoch, index, block, lock, word}; }

  // The word is read before the second look at the epoch: at that moment the entry stood in its chain. If it is cut or
  // moved later, it is frozen before, and a compare-and-swap from this word fails.
  [[gnu::always_inline]] bool look(const Key& key) noexcept {
    lock = &shard->lock_of(block, key.length);
    // Acquire: pairs with the release of the last owner, and of thaw().
    word = load_word_of(*lock, kAcquire);
    HOLDFAST_FAILPOINT("quiet.looked");
    return shard->unchanged_since(epoch);
  }
};

[[gnu::always_inline]] inline Glimpsed glimpse(Segment* segment, std::string_view bytes) noexcept {
  Glimpsed found{};
  found.segment = segment;
  if (segment == nullptr) return found;
  const Key key(bytes, segment->seed());
  found.index = segment->index_of(key.hash);
  found.shard = &segment->shard_at(found.index);
  if (!found.shard->is_open()) return found;
  found.epoch = found.shard->epoch();
  found.block = found.shard->glimpse_lock(key);
  if (found.block != 0 && !found.look(key)) found.block = 0;
  return found;
}

// Apart from the callers, for which it is rarely needed: they need fewer registers without it. Finds no lock of a
// cluster: it stays frozen.
[[gnu::noinline]] Glimpsed glimpse_apart(Segment* segment, std::string_view bytes) noexcept {
  Glimpsed found = glimpse(segment, bytes);
  if (found.block != 0 && segment->gate() != nullptr) found.block = 0;
  return found;
}

// As glimpse(), but by the note that lock_quietly() made, if no memory was released since: without a hash and a walk.
[[gnu::always_inline]] inline bool glimpse_noted(Dictionary& dictionary, Segment* segment, std::string_view bytes,
                                                 std::uint64_t sequence, Glimpsed& found) noexcept {
  if (segment == nullptr) return false;
  const LockPlace place = dictionary.lock_places().find(sequence);
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
  return found.look(key);
}

// After memory of the shard was released since the look: whether the key leads to the lock with the word that was just
// stored. The place alone does not count: the same key may have another lock there by now.
[[gnu::cold]] bool is_still_there(std::string_view key, Glimpsed found, std::uint64_t mine) noexcept {
  const Glimpsed again = glimpse_apart(found.segment, key);
  return again.block != 0 && again.lock == found.lock && again.word.quiet().bits == mine;
}

// Whether the lock is held for certain. One of a cluster never is: it stays frozen, and may not stand.
[[gnu::noinline]] bool is_held(Dictionary& dictionary, Glimpsed found) noexcept {
  SeenGrant seen{};
  return found.block != 0 && found.segment->gate() == nullptr &&
         read_grant(found.shard->entry(found.block), *found.lock, seen) && !seen.word.is_free() && seen.complete &&
         is_live(seen.expiry, found.segment->flush_epoch()) && found.shard->unchanged_since(found.epoch) &&
         dictionary.world().judge(seen.owner) == Liveness::alive;
}

// Undoes the exchange of a word that may have been that of another lock, or bits of a value, of that very content.
// False if somebody else has changed it. Only a lock is frozen.
bool put_back(Glimpsed found, std::uint64_t mine) noexcept {
  std::uint64_t expected = mine;
  return found.lock->word.compare_exchange_strong(expected, found.word.bits);
}

// Ends a grant that somebody has frozen before it could be put back: so it is a lock's. It may count as complete by
// now, so its turn is over: no other grant may have it.
[[gnu::cold]] void end_frozen(Dictionary& dictionary, std::string_view key, Glimpsed found,
                              std::uint64_t mine) noexcept {
  const LockWord free = LockWord::make(LockWord::kFreeOwner, LockWord{mine}.turn());
  const auto end_quiet = [&] {
    std::uint64_t expected = mine;
    return found.lock->word.compare_exchange_strong(expected, free.bits);
  };
  const Code code = dictionary.transact_in(*found.segment, key, [&](Transaction&) {
    std::uint64_t slow = LockWord{mine}.slow().bits;
    if (!end_quiet()) found.lock->word.compare_exchange_strong(slow, free.slow().bits);
    return Code::ok;
  });
  if (code != Code::ok) end_quiet();
}

// Whether it was the lock that was released; if not, that is undone. The lock may be anywhere by now, but its word was
// frozen before it left its place.
[[gnu::cold]] bool was_released(Dictionary& dictionary, std::string_view key, Glimpsed found,
                                std::uint64_t mine) noexcept {
  bool there = false;
  bool undone = false;
  const Code code = dictionary.transact_in(*found.segment, key, [&](Transaction& change) {
    there = change.is(EntryType::lock) && &change.view().lock() == found.lock;
    undone = !there && put_back(found, mine);
    return Code::ok;
  });
  if (code != Code::ok) undone = put_back(found, mine);
  return there || !undone;
}

/// The time now, and at which a lease of `seconds` ends. A long one counts from the coarse clock, which takes a
/// fifth of the time, and from the most that this may lag: it may end later, never earlier.
struct LeaseTimes {
  Since now;
  std::uint64_t end_ms;
};
[[gnu::always_inline]] inline LeaseTimes times_of_lease(double seconds) noexcept {
  constexpr double kLong = 10.0;
  const bool exact = seconds > 0.0 && seconds < kLong;
  const std::uint64_t now = exact ? platform::monotonic_ns() : platform::coarse_monotonic_ns();
  return {exact ? Since::of(now) : Since::of_coarse(now),
          end_of_lease(seconds, exact ? now : now + kCoarseLagMs * kNsPerMs)};
}

// Writes the fields of the grant that was just taken.
[[gnu::always_inline]] inline void complete(const Glimpsed& found, Token self, double exptime,
                                            std::uint32_t holder_task) noexcept {
  std::atomic_thread_fence(kRelease);  // pairs with read_grant(): a reader of what follows sees the new word
  LockFields& lock = *found.lock;
  const LeaseTimes times = times_of_lease(exptime);
  lock.generation_high.store(generation_high(self), kRelaxed);
  lock.task.store(holder_task, kRelaxed);
  const Since since = found.segment->statistics().since(times.now, found.word.turn() + 1);
  lock.since.store(since.bits, kRelaxed);
  found.shard->entry(found.block).expiry.store(expiry_word(times.end_ms, found.segment->flush_epoch()), kRelaxed);
  commit(lock.granted, found.word.turn() + 1);  // pairs with is_complete()
}

}  // namespace

// REQUIRES: the thread is in no section, and has an EpochGuard from before the segment was found.
[[gnu::always_inline]] static inline Quiet lock_in(Dictionary& dictionary, Segment* segment, std::string_view key,
                                                   Token self, double exptime, std::uint32_t holder_task,
                                                   Lease& lease) noexcept {
  enum class Result { taken, undone, frozen } result = Result::taken;
  const Glimpsed found = glimpse(segment, key);
  if (found.block == 0) return Quiet::unclear;
  LockFields& lock = *found.lock;
  std::uint64_t expected = found.word.bits;
  const std::uint32_t turn = found.word.turn() + 1;
  if (expected != LockWord::make(LockWord::kFreeOwner, turn - 1).bits || !has_number(lock, found.word))
    return is_held(dictionary, found.copy()) ? Quiet::held : Quiet::unclear;
  HOLDFAST_FAILPOINT("quiet.glimpsed");
  const std::uint64_t mine = LockWord::make(owner_bits(self), turn).bits;
  {
    // Tells a grant that is about to be completed from one that was overwritten (mend_incomplete()).
    const MutexlessSection section(dictionary.world(), self);
    // Acquire: as in look(), of the same word. It is needed beside that: a grant that was given up in between leaves
    // the same word.
    if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_acquire, kRelaxed)) return Quiet::unclear;
    HOLDFAST_FAILPOINT("quiet.taken");
    // A dictionary that was removed before grants nothing.
    const bool counts = !found.segment->was_removed_before_commit();
    if (counts && (found.shard->unchanged_since(found.epoch) || is_still_there(key, found.copy(), mine))) [[likely]] {
      // Before the grant is complete: then it may expire, and the next one may have another upper half.
      lease = {self, std::uint64_t{lock.sequence_high.load(kRelaxed)} << 32 | turn};
      complete(found, self, exptime, holder_task);
    } else {
      // Inside the section: outside of it, others take the grant for one that was overwritten, and complete it.
      result = put_back(found.copy(), mine) ? Result::undone : Result::frozen;
    }
  }
  if (result != Result::taken) [[unlikely]] {
    HOLDFAST_FAILPOINT("quiet.undo");
    if (result == Result::frozen) end_frozen(dictionary, key, found.copy(), mine);
    return Quiet::unclear;
  }
  dictionary.lock_places().note(lease.sequence, {found.epoch, found.index, found.block});
  trace_acquire(dictionary, key, lease);
  return Quiet::taken;
}

Quiet lock_quietly(Dictionary& dictionary, std::string_view key, Token self, double exptime, std::uint32_t holder_task,
                   Lease& lease) noexcept {
  if (MutexlessSection::is_inside()) return Quiet::unclear;
  const EpochGuard inside;
  return lock_in(dictionary, dictionary.segment(), key, self, exptime, holder_task, lease);
}

[[gnu::noinline]] static Quiet lock_in_apart(Dictionary& dictionary, Segment* segment, std::string_view key, Token self,
                                             const Request& request, Lease& lease) noexcept {
  return lock_in(dictionary, segment, key, self, request.exptime, request.holder_task, lease);
}

namespace {

constinit LookInterval look_interval;

}  // namespace

bool spin_quietly(Dictionary& dictionary, std::string_view key, Token self, const Request& request, int pauses,
                  Lease& lease, bool& refused) noexcept {
  constexpr int kLeastIntervals = 2;
  if (MutexlessSection::is_inside()) return false;
  const EpochGuard inside;
  const Glimpsed found = glimpse_apart(dictionary.segment(), key);
  if (found.block == 0) return false;
  LockWord word = load_word_of(*found.lock);
  for (int intervals = 0;; ++intervals) {
    // An operation under the mutex is soon over; what hangs on the lock stays.
    if ((word.is_slow() && needs_mutex(*found.lock)) || word.owner() == owner_bits(self)) return false;
    if (word.is_free() && !word.is_slow() &&
        lock_in_apart(dictionary, found.segment, key, self, request, lease) == Quiet::taken)
      return true;
    refused = true;
    if (pauses <= 0 && intervals >= kLeastIntervals) return false;
    const int interval = look_interval.pauses();
    for (int i = 0; i < interval; ++i) platform::cpu_relax();
    pauses -= interval;
    const LockWord before = std::exchange(word, load_word_of(*found.lock));
    look_interval.note(word.turn() - before.turn(), interval);
  }
}

bool is_held_for_certain(Dictionary& dictionary, std::string_view key) noexcept {
  const EpochGuard inside;
  return is_held(dictionary, glimpse_apart(dictionary.segment(), key));
}

bool unlock_quietly(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  const EpochGuard inside;
  Segment* const segment = dictionary.segment();
  Glimpsed found;
  if (!glimpse_noted(dictionary, segment, key, lease.sequence, found)) [[unlikely]] {
    found = glimpse_apart(segment, key);
    if (found.block == 0) return false;
  }
  LockFields& lock = *found.lock;
  const auto turn = static_cast<std::uint32_t>(lease.sequence);
  std::uint64_t expected = LockWord::make(owner_bits(lease.owner), turn).bits;
  const std::uint64_t expiry = found.shard->entry(found.block).expiry.load(kRelaxed);
  if (found.word.bits != expected || sequence_of(lock, found.word) != lease.sequence ||
      !is_complete(lock, found.word) || is_flushed(expiry, found.segment->flush_epoch()))
    return false;
  // Now, not later: the next grant has another one.
  const Since since{lock.since.load(kRelaxed)};
  HOLDFAST_FAILPOINT("quiet.checked");
  // Release: the next owner sees what was done inside.
  const std::uint64_t mine = LockWord::make(LockWord::kFreeOwner, turn).bits;
  if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_release, kRelaxed)) return false;
  HOLDFAST_FAILPOINT("quiet.released");
  if (!found.shard->unchanged_since(found.epoch) && !is_still_there(key, found.copy(), mine) &&
      !was_released(dictionary, key, found.copy(), mine)) [[unlikely]]
    return false;
  found.segment->statistics().count_hold(HeldKind::lock, since);
  trace_release(dictionary, key, lease);
  return true;
}

}  // namespace holdfast
