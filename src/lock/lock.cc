#include "lock/lock.h"

#include <algorithm>
#include <optional>

#include "dict/expiry.h"
#include "dict/wait_queue.h"
#include "platform/platform.h"
#include "sync/bell.h"
#include "world/world.h"

namespace holdfast {

namespace {

// A waiter looks again by itself after this long, however long the holder may go on.
constexpr double kPauseMax = 0.5;
// Where a waiter cannot queue (no memory for it, or the key holds an ordinary value), it polls.
constexpr double kPausePolling = 0.01;
// The more of them there are, the rarer each looks: a lock that comes free is found in about 0.2 ms by some of them.
constexpr std::size_t kPollersPerPause = 64;
// Who wants a lock has a timeout of his own, and other coroutines that wait for him: he does not wait long for a shard
// whose mutex belongs to a process that is stopped, but looks again.
constexpr std::uint64_t kAttemptPatienceNs = 50'000'000;

/// A lock entry of the shard whose mutex is held.
struct LockEntry {
  Segment& segment;
  Shard& shard;
  Arena& arena;
  Entry& entry;
  LockFields& fields;

  bool live(std::uint32_t flush) const noexcept { return is_live(entry.expiry.load(kRelaxed), flush); }
  WaitQueue queue() const noexcept { return {shard, arena, fields}; }
  bool held_by(const Lease& lease) const noexcept {
    return fields.owner.load(kRelaxed) == lease.owner && fields.sequence.load(kRelaxed) == lease.sequence;
  }
};

void count_free_locks(const LockEntry& lock, std::uint32_t change) noexcept {
  Word32& count = lock.shard.header().free_locks;
  count.store(count.load(kRelaxed) + change, kRelaxed);
}

// A sweep before this time would find nothing to reclaim, so an earlier end must be known.
void note_end(const LockEntry& lock, std::uint64_t end_ms) noexcept {
  Word64& reclaim_after = lock.shard.header().reclaim_after;
  if (end_ms != kExpiryNever && end_ms < reclaim_after.load(kRelaxed)) reclaim_after.store(end_ms, kRelaxed);
}

// Gives a live lease another end. `flush`: the epoch under which it was found live; a flush since then still ends it.
void extend(const LockEntry& lock, std::uint64_t end_ms, std::uint32_t flush) noexcept {
  commit(lock.entry.expiry, expiry_word(end_ms, flush));
  note_end(lock, end_ms);
}

// With one shard its mutex guards the number, and the atomic step, which costs as much as finding the lock, is saved.
std::uint64_t next_sequence(Segment& segment) noexcept {
  Word64& last = segment.header().sequence;
  if (segment.geometry().shards > 1) return last.fetch_add(1, kRelaxed) + 1;
  const std::uint64_t next = last.load(kRelaxed) + 1;
  last.store(next, kRelaxed);
  return next;
}

// All fields of a grant are written while nobody is the owner; the owner is the commit. REQUIRES: owner is nobody.
std::uint64_t grant(const LockEntry& lock, Token owner, double exptime, std::uint32_t reserved) noexcept {
  const std::uint64_t now = exptime == 0.0 ? platform::coarse_monotonic_ns() : platform::monotonic_ns();
  const std::uint64_t end_ms = expiry_after(exptime, now);
  const std::uint64_t sequence = next_sequence(lock.segment);
  lock.fields.sequence.store(sequence, kRelease);  // release: pairs with Shard::copy_value
  lock.fields.reserved.store(reserved, kRelaxed);
  lock.fields.since.store(now / 1'000'000, kRelaxed);
  lock.entry.expiry.store(expiry_word(end_ms, lock.segment.flush_epoch()), kRelease);  // as the sequence
  note_end(lock, end_ms);
  crash_order();
  commit(lock.fields.owner, owner);
  return sequence;
}

// Frees the lock, or grants it to a waiter that has waited long enough. Gives the waiter to wake, if any.
// REQUIRES: the caller has shown that it may. Runs with the mutex held; the waking comes after it.
Waiter release(const LockEntry& lock, World& world) noexcept {
  WaitQueue queue = lock.queue();
  const Waiter next = queue.empty() ? Waiter{} : queue.pop(world);
  commit(lock.fields.owner, kNobody);
  if (next.number != 0 && platform::monotonic_ns() - next.arrival > kBargeNs) {
    grant(lock, next.owner, kClaimSeconds, next.number);
  } else {
    count_free_locks(lock, 1);
  }
  return next;
}

void wake(World& world, const Waiter& waiter) noexcept {
  if (waiter.number != 0) ring_bell(world, waiter.owner, waiter.number);
}

struct Request {
  std::string_view key;
  double exptime;
  Token self;
  const Waiter* waiter;  // null: do not queue
};

/// Why a request was refused.
struct Refusal {
  Token holder = kNobody;  // kNobody: an ordinary value
  std::uint64_t end_ms = kExpiryNever;
  std::uint64_t place = 0;  // the waiter's, in the queue
  Watch watch;
};

void take(const LockEntry& lock, const Request& request, Lease& lease, bool is_new) noexcept {
  if (lock.fields.owner.load(kRelaxed) != kNobody)
    commit(lock.fields.owner, kNobody);
  else if (!is_new)
    count_free_locks(lock, ~0U);
  lease = {request.self, grant(lock, request.self, request.exptime, 0)};
  if (request.waiter != nullptr) lock.queue().remove(*request.waiter);
}

Code judge(const LockEntry& lock, const Request& request, Token dead, bool is_new, Lease& lease, Refusal& refusal) {
  const Token owner = lock.fields.owner.load(kRelaxed);
  const std::uint32_t flush = lock.segment.flush_epoch();
  if (owner == kNobody || owner == dead || !lock.live(flush)) {
    take(lock, request, lease, is_new);
    return Code::ok;
  }
  if (request.waiter != nullptr && owner == request.self &&
      lock.fields.reserved.load(kRelaxed) == request.waiter->number) {
    lock.fields.reserved.store(0, kRelaxed);
    extend(lock, expiry_after(request.exptime), flush);
    lease = {owner, lock.fields.sequence.load(kRelaxed)};
    return Code::ok;
  }
  refusal.holder = owner;
  refusal.end_ms = expiry_ms(lock.entry.expiry.load(kRelaxed));
  refusal.place = request.waiter != nullptr ? lock.queue().add(*request.waiter) : 0;
  refusal.watch = {&lock.fields.owner, &lock.entry.expiry, &lock.fields.reserved};
  return Code::locked;
}

// One attempt with the mutex held. `dead`: an owner that was found dead, who counts as nobody.
Code attempt(Dictionary& dictionary, Segment& segment, const Request& request, Token dead, Lease& lease,
             Refusal& refusal) noexcept {
  const Key key(request.key.data(), request.key.size(), segment.seed());
  return dictionary.mutate(
      segment, key.hash,
      [&](Shard& shard, Arena& arena) {
        Place place{};
        if (!shard.find(key, place)) return Code::corrupt;
        const bool is_new = place.block == 0 || place.view.type != EntryType::lock;
        if (is_new) {
          if (place.block != 0 && Shard::counts(place.view, segment.flush_epoch())) {
            refusal = {};
            refusal.end_ms = expiry_ms(place.view.entry->expiry.load(kRelaxed));
            return Code::locked;
          }
          const ValueIn value{EntryType::lock, 0, kNobody, nullptr, sizeof(LockFields)};
          Effect effect;
          const Code code = dictionary.put(segment, shard, arena, key, place, value, kExpiryNever, Evict::yes, effect);
          if (code != Code::ok) return code;
        }
        const LockEntry lock{segment, shard, arena, *place.view.entry, place.view.lock()};
        return judge(lock, request, dead, is_new, lease, refusal);
      },
      kAttemptPatienceNs);
}

Code acquire(Dictionary& dictionary, Request request, Lease& lease, Refusal& refusal) noexcept {
  Segment* segment = dictionary.segment();
  if (segment == nullptr) return Code::removed;
  if (granules_for(request.key.size(), sizeof(LockFields)) > segment->geometry().block_max()) return Code::too_large;
  Token dead = kNobody;
  Waiter waiter{};
  if (request.waiter != nullptr) {
    waiter = *request.waiter;
    request.waiter = &waiter;
  }
  // A second attempt only against the very owner that the kernel said is dead; a third owner is alive or was so just
  // now.
  for (int i = 0;; ++i) {
    const Code code = attempt(dictionary, *segment, request, dead, lease, refusal);
    const Token holder = refusal.holder;
    if (code != Code::locked || holder == kNobody || holder == request.self || i == 2) return code;
    if (dictionary.world().alive(holder)) return code;
    dead = holder;
    waiter.place = refusal.place;  // where the next attempt takes it out
  }
}

double seconds_until(std::uint64_t ms) noexcept {
  return std::max(static_cast<double>(ms) / 1e3 - static_cast<double>(platform::monotonic_ns()) / 1e9, 0.0);
}

// Runs `change(LockEntry&) -> Code` on the key's lock entry; not_owner if there is none.
template <class Change>
Code with_lock(Dictionary& dictionary, std::string_view name, Change&& change,
               std::uint64_t patience_ns = kMutexPatienceNs) noexcept {
  Segment* segment = dictionary.segment();
  if (segment == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), segment->seed());
  return dictionary.mutate(
      *segment, key.hash,
      [&](Shard& shard, Arena& arena) {
        Place place{};
        if (!shard.find(key, place)) return Code::corrupt;
        if (place.block == 0 || place.view.type != EntryType::lock) return Code::not_owner;
        return change(LockEntry{*segment, shard, arena, *place.view.entry, place.view.lock()});
      },
      patience_ns);
}

bool flushed(const LockEntry& lock) noexcept {
  return (lock.entry.expiry.load(kRelaxed) & kFlushMask) != lock.segment.flush_epoch();
}

// --- the common case at full speed: the lock's entry is there, nobody holds it, nobody waits for it ---

/// The lock entry of the key, with its shard's mutex held. No answer means that it is not so quiet.
class QuietLock {
 public:
  QuietLock(Segment& segment, std::string_view name, std::uint64_t patience_ns) noexcept
      : segment_(segment),
        key_(name.data(), name.size(), segment.seed()),
        shard_(segment.shard_of(key_.hash)),
        arena_(shard_),
        guard_(shard_, patience_ns) {
    found_ = guard_.held() && shard_.find(key_, place_) && place_.block != 0 && place_.view.type == EntryType::lock;
  }

  std::optional<Code> take(Token self, double exptime, Lease& lease) noexcept {
    if (!guard_.held()) return guard_.code();
    if (!found_ || place_.view.lock().owner.load(kRelaxed) != kNobody) return std::nullopt;
    const LockEntry lock = entry();
    count_free_locks(lock, ~0U);
    lease = {self, grant(lock, self, exptime, 0)};
    return Code::ok;
  }

  std::optional<Code> give_back(Lease& lease) noexcept {
    if (!guard_.held()) return guard_.code();
    if (!found_) return std::nullopt;
    const LockEntry lock = entry();
    if (!lock.held_by(lease) || flushed(lock) || !lock.queue().empty()) return std::nullopt;
    commit(lock.fields.owner, kNobody);
    count_free_locks(lock, 1);
    lease = {};
    return Code::ok;
  }

 private:
  LockEntry entry() noexcept { return {segment_, shard_, arena_, *place_.view.entry, place_.view.lock()}; }

  Segment& segment_;
  const Key key_;
  Shard& shard_;
  Arena arena_;
  const ShardGuard guard_;
  Place place_;
  bool found_;
};

}  // namespace

Code lock_try(Dictionary& dictionary, std::string_view key, double exptime, Lease& lease) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody) return Code::system;
  Segment* segment = dictionary.segment();
  if (segment == nullptr) return Code::removed;
  if (const auto code = QuietLock(*segment, key, kAttemptPatienceNs).take(self, exptime, lease)) return *code;
  Refusal refusal;
  return acquire(dictionary, {key, exptime, self, nullptr}, lease, refusal);
}

Code lock_wait(Dictionary& dictionary, std::string_view key, double exptime, Parker& parker, std::uint32_t number,
               Lease& lease, double& pause) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody) return Code::system;
  const Waiter waiter = parker.begin(number, self);
  if (waiter.arrival == 0) return Code::invalid;
  Refusal refusal;
  const Code code = acquire(dictionary, {key, exptime, self, &waiter}, lease, refusal);
  if (code != Code::locked && code != Code::timeout) {
    parker.end(number);
    return code;
  }
  if (code == Code::timeout && refusal.place == 0 && waiter.place != 0) {
    pause = kPauseMax;  // it still has its place, and what it watches
    return code;
  }
  const std::size_t turns = 1 + parker.watch(number, refusal.watch, refusal.place) / kPollersPerPause;
  pause = refusal.place != 0 ? kPauseMax : kPausePolling * static_cast<double>(turns);
  if (refusal.end_ms != kExpiryNever) pause = std::min(pause, seconds_until(refusal.end_ms));
  return code;
}

Code lock_leave(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t number) noexcept {
  const Token self = dictionary.world().token();
  const Waiter waiter = parker.begin(number, self);
  parker.end(number);
  if (self == kNobody || waiter.arrival == 0) return Code::ok;
  Waiter next{};
  const Code code = with_lock(
      dictionary, key,
      [&](const LockEntry& lock) {
        const bool chosen = !lock.queue().remove(waiter);
        const Token owner = lock.fields.owner.load(kRelaxed);
        if (owner == self && lock.fields.reserved.load(kRelaxed) == number)
          next = release(lock, dictionary.world());
        else if (chosen && owner == kNobody)  // it was woken to take what is still free
          next = lock.queue().pop(dictionary.world());
        return Code::ok;
      },
      kAttemptPatienceNs);
  wake(dictionary.world(), next);
  return code == Code::not_owner || code == Code::removed ? Code::ok : code;
}

Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept {
  const Token self = dictionary.world().token();
  Code code = Code::not_owner;
  Waiter next{};
  if (self != kNobody && lease.owner == self) {
    Segment* segment = dictionary.segment();
    if (segment == nullptr) {
      lease = {};
      return Code::removed;
    }
    if (const auto quiet = QuietLock(*segment, key, kMutexPatienceNs).give_back(lease)) return *quiet;
    code = with_lock(dictionary, key, [&](const LockEntry& lock) {
      if (!lock.held_by(lease) || flushed(lock)) return Code::not_owner;
      next = release(lock, dictionary.world());
      return Code::ok;
    });
    wake(dictionary.world(), next);
  }
  if (code == Code::ok || code == Code::not_owner || code == Code::removed) lease = {};
  return code;
}

Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody || lease.owner != self) return Code::not_owner;
  const std::uint64_t end = expiry_after(exptime);
  return with_lock(dictionary, key, [&](const LockEntry& lock) {
    const std::uint32_t flush = lock.segment.flush_epoch();
    if (!lock.held_by(lease) || !lock.live(flush)) return Code::not_owner;
    extend(lock, end, flush);
    return Code::ok;
  });
}

Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept {
  ValueOut out{};
  const Code code = dictionary.get(key, out);
  if (code == Code::removed) return code;
  if (code != Code::ok || out.type != EntryType::lock || out.bits != lease.owner || out.sequence != lease.sequence ||
      lease.owner != dictionary.world().token())
    return Code::not_owner;
  const std::uint64_t end = expiry_ms(out.expiry);
  seconds = end == kExpiryNever ? 0.0 : std::max(seconds_until(end), 0.001);
  return Code::ok;
}

}  // namespace holdfast
