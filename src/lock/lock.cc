#include "lock/acquire.h"

#include <algorithm>
#include <atomic>

#include "dict/expiry.h"
#include "dict/probes.h"
#include "lock/quiet.h"
#include "lock/trace.h"
#include "lock/watchers.h"
#include "platform/platform.h"
#include "wait/task_id.h"
#include "world/world.h"

namespace holdfast {

namespace {

// The look of a waiter for a lock. A flush and a removal of the dictionary end every lease.
WatchState look_at_lock(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept {
  const auto& fields = *static_cast<const LockFields*>(watch.fields);
  SeenGrant seen{};
  if (!read_grant(*watch.entry, fields, seen)) return WatchState::held;  // it changes; look again
  const Token owner = owner_of(watch.segment->world(), seen);
  if (owner == waiter.self && fields.reserved.load(kRelaxed) == waiter.number) return WatchState::granted;
  const bool held = owner != kNobody && liveness(owner) &&
                    (!seen.complete || is_live(seen.expiry, watch.segment->flush_epoch())) &&
                    !watch.segment->retired() && watch.is_same_entry();
  return held ? WatchState::held : WatchState::open;
}

// While the gate is closed the lock is held, as far as a waiter can know: it attempts again by itself.
WatchState look_at_gated_lock(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept {
  const WatchState state = look_at_lock(watch, liveness, waiter);
  return state == WatchState::open && !may_grant(*watch.segment, gate_fields_of(watch)) ? WatchState::held : state;
}

constexpr WatchKind kLockWatch{&look_at_lock, &blocker_of_lock, &end_of_lock, true};
constexpr WatchKind kGatedLockWatch{&look_at_gated_lock, &blocker_of_lock, &end_of_lock, false};

Watch watch_lock(const LockEntry& lock) noexcept {
  return watch_entry(lock.segment.gate() != nullptr ? kGatedLockWatch : kLockWatch, lock, 1);
}

// Refuses if the key has a live entry of another type. A lock that lacks fields was overwritten.
Code make_lock(Transaction& change, BlockedBy& blocked_by) noexcept {
  if (!change.exists() || change.is(EntryType::lock)) return make_free_lock(change);
  blocked_by.place = 0;
  blocked_by.watch = {};
  blocked_by.end_ms = expiry_ms(change.view().entry->expiry.load(kRelaxed));
  return Code::locked;
}

/// The outcome of an attempt.
struct Result {
  Lease& lease;
  BlockedBy& blocked_by;
  Chosen chosen;        // wake them after releasing the mutex
  bool wanted = false;  // tell the gate
};

std::uint64_t place_in_queue(const LockEntry& lock, const Attempt& attempt) noexcept {
  const Waiter* const waiter = attempt.queued();
  return waiter != nullptr ? lock.queue().add(*waiter, lock.fields.overtakes.load(kRelaxed)) : 0;
}

// The answer to a contender while the gate is closed, whatever the entry says: nobody has the lock here.
[[gnu::cold]] Code turn_away(const LockEntry& lock, const Attempt& attempt, Result& result) noexcept {
  const Contender& contender = attempt.contender;
  if (is_reserved_for(lock, contender.waiter)) {
    end_grant(lock);
    result.chosen.watchers = lock.has_watchers();
  }
  const Waiter* const waiter = attempt.queued();
  if (waiter == nullptr) {
    result.wanted = true;
    return Code::elsewhere;
  }
  const Code refusal = lock.gate != nullptr ? lock.segment.gate()->refusal(*lock.gate, waiter->arrival) : Code::ok;
  if (refusal == Code::unsupported || (refusal != Code::ok && contender.request.tries)) {
    lock.queue().remove(*waiter);
    return refusal;
  }
  result.wanted = true;
  result.blocked_by.place = place_in_queue(lock, attempt);
  result.blocked_by.watch = watch_lock(lock);
  return Code::locked;
}

Code try_acquire(const LockEntry& lock, World& world, const Attempt& attempt, const TokenSet& dead,
                 Result& result) noexcept {
  const Contender& contender = attempt.contender;
  BlockedBy& blocked_by = result.blocked_by;
  if (contender.waiter != nullptr && blocked_by.delay_ns == 0)
    blocked_by.delay_ns = lock.queue().delay_of(*contender.waiter);
  if (!lock.may_be_granted()) [[unlikely]]
    return turn_away(lock, attempt, result);
  if (is_reserved_for(lock, contender.waiter)) {
    result.lease = claim_reserved(lock, world, contender);
    return Code::ok;
  }
  const Token owner = lock.owner();
  if (owner != kNobody && (dead.has(owner) || !lock.live(lock.segment.flush_epoch()))) {
    if (dead.has(owner)) probe_takeover(lock.shard, lock.entry, owner, lock.sequence());
    end_grant(lock);
    result.chosen.watchers = lock.has_watchers();
  }
  if (lock.is_free() && may_take(lock, world, contender, dead, result.chosen)) {
    result.lease = take(lock, world, contender);
    return Code::ok;
  }
  blocked_by.holders.add(lock.owner());
  blocked_by.end_ms = lock.end_ms();
  blocked_by.place = place_in_queue(lock, attempt);
  blocked_by.watch = watch_lock(lock);
  return Code::locked;
}

// --- adaptive spin ---

constexpr std::uint64_t kSpinNs = 25'000;
// The time between two looks: each takes the cache lines of the entry away from the holder's processor for a moment.
constexpr std::uint64_t kSpinLookNs = 6'000;
constexpr int kPausesPerLook = 8;

/// Decides by recent success whether spinning pays off in this process. All its words are hints.
class AdaptiveSpin {
 public:
  bool try_now() noexcept {
    if (credit_.load(kRelaxed) > 0) return platform::processor_count() != 1;
    const std::uint32_t skipped = skipped_.load(kRelaxed) + 1;
    skipped_.store(skipped, kRelaxed);
    return skipped % kSkips == 0 && platform::processor_count() != 1;
  }
  void note(bool success) noexcept {
    const int credit = credit_.load(kRelaxed) + (success ? kPerSuccess : -1);
    credit_.store(std::clamp(credit, 0, kMost), kRelaxed);
  }

 private:
  static constexpr int kMost = 32;
  static constexpr int kPerSuccess = 8;  // spinning pays off if one in nine succeeds
  static constexpr std::uint32_t kSkips = 64;

  std::atomic<int> credit_{kPerSuccess};
  std::atomic<std::uint32_t> skipped_{0};
};

AdaptiveSpin& adaptive_spin() noexcept {
  static constinit AdaptiveSpin of_this_process;
  return of_this_process;
}
/// The same for short sections.
AdaptiveSpin& short_spin() noexcept {
  static constinit AdaptiveSpin of_this_process;
  return of_this_process;
}
// In pauses, of which one takes about 10 to 50 ns.
constexpr int kShortSpin = 48;
constexpr int kLongSpin = 800;

// Spins until the lock is free, or granted to the waiter. False if `end_ns` comes first, or another task of this
// process gets the lock.
bool spin_until_open(const LockFields& fields, const Contender& contender, std::uint64_t end_ns) noexcept {
  for (std::uint64_t now_ns = platform::monotonic_ns(); now_ns < end_ns;) {
    const std::uint64_t next_ns = now_ns + kSpinLookNs;
    while (now_ns < next_ns) {
      for (int i = 0; i < kPausesPerLook; ++i) platform::cpu_relax();
      now_ns = platform::monotonic_ns();
    }
    const LockWord word = load_word_of(fields);
    if (word.is_free()) return true;
    if (word.owner() == owner_bits(contender.self)) return fields.reserved.load(kRelaxed) == contender.waiter->number;
  }
  return false;
}

}  // namespace

const GateFields* gate_fields_of(const Watch& watch) noexcept {
  auto& lock = *static_cast<LockFields*>(const_cast<void*>(watch.fields));
  return gate_fields_of(*watch.segment, watch.entry->value_size.load(kRelaxed), lock);
}

Code make_free_lock(Transaction& change) noexcept {
  const std::uint64_t free = LockWord::make(LockWord::kFreeOwner, 0).slow().bits;
  const ValueIn value{EntryType::lock, 0, free, nullptr,
                      lock_size(change.key().length, change.segment().gate() != nullptr)};
  const Code code = change.put(value, kExpiryNever, Evict::yes);
  Word32& perhaps_free = change.shard().header().perhaps_free;
  if (code == Code::ok) perhaps_free.store(perhaps_free.load(kRelaxed) + 1, kRelaxed);
  return code;
}

// A reserved grant has no task yet, nor has one that is incomplete. Nobody is blocked by a holder whose grant does not
// count any more.
Blocker blocker_of_lock(const Watch& watch) noexcept {
  const auto& fields = *static_cast<const LockFields*>(watch.fields);
  SeenGrant seen{};
  const bool same = watch.is_same_entry() && read_grant(*watch.entry, fields, seen) && watch.is_same_entry();
  if (!same || !seen.complete || !is_live(seen.expiry, watch.segment->flush_epoch()) || watch.segment->retired() ||
      !does_grant_count(*watch.segment, gate_fields_of(watch)))
    return {};
  return {seen.owner, seen.task, seen.sequence, expiry_ms(seen.expiry)};
}

std::uint64_t end_of_lock(const Watch& watch) noexcept {
  SeenGrant seen{};
  const bool known = read_grant(*watch.entry, *static_cast<const LockFields*>(watch.fields), seen) && seen.complete;
  return known ? expiry_ms(seen.expiry) : platform::coarse_monotonic_ns() / 1'000'000 + kIncompleteMs;
}

static void tell_gate(Dictionary& dictionary, std::string_view key) noexcept {
  const EpochGuard inside;
  const Segment* const segment = dictionary.segment();
  if (segment != nullptr && segment->gate() != nullptr) segment->gate()->want(*segment, Key(key, segment->seed()).hash);
}

// Without a place in the queue the gate would not ask for the lock: so there is room for one, at the price of values.
// The lock itself may go for it, as nobody has it yet: so there is room for both.
static bool makes_room_for_waiter(Transaction& change, const Attempt& attempt, Result& result) noexcept {
  constexpr std::uint32_t kAlignment = 4;  // of a lock: a cache line
  if (!result.wanted || attempt.queued() == nullptr || result.blocked_by.place != 0) return false;
  const std::size_t key = attempt.key.size();
  const auto both =
      static_cast<std::uint32_t>(granules_for(key, lock_size(key, true))) + kAlignment + kGranulesPerWaiter;
  return change.make_room(both, Evict::yes) == Code::ok &&
         (LockEntry::is_whole(change) || make_lock(change, result.blocked_by) == Code::ok);
}

Code attempt_lock(Dictionary& dictionary, const Attempt& attempt, const TokenSet& dead, Lease& lease,
                  BlockedBy& blocked_by) noexcept {
  const EpochGuard inside;
  World& world = dictionary.world();
  const bool has_gate = dictionary.gate() != nullptr;
  for (;;) {
    Result result{lease, blocked_by, {}};
    const Segment* segment = nullptr;
    const Code code = dictionary.transact(
        attempt.key,
        [&](Transaction& change) {
          segment = &change.segment();
          if (!LockEntry::is_whole(change)) {
            const Code made = make_lock(change, blocked_by);
            if (made != Code::ok) return made;
          }
          const Code answer = try_acquire(LockEntry::of(change), world, attempt, dead, result);
          if (!makes_room_for_waiter(change, attempt, result)) [[likely]]
            return answer;
          return try_acquire(LockEntry::of(change), world, attempt, dead, result);
        },
        kAttemptPatienceNs, granules_for(attempt.key.size(), lock_size(attempt.key.size(), has_gate)));
    if (attempt.contender.waiter != nullptr) keep_watched(*attempt.contender.waiter, blocked_by);
    if (code == Code::ok && segment->was_removed_before_commit()) [[unlikely]] {
      lease = {};  // it was a grant of no dictionary: attempt again in the next one, if there is any
      continue;
    }
    if (code == Code::ok) trace_acquire(dictionary, attempt.key, lease);
    wake(dictionary, attempt.key, result.chosen);
    if (result.wanted) [[unlikely]]
      tell_gate(dictionary, attempt.key);
    return code;
  }
}

bool may_spin_for_short_section() noexcept { return short_spin().try_now(); }

bool spin_for_short_section(Dictionary& dictionary, std::string_view key, Token self, const Request& request,
                            Lease& lease) noexcept {
  bool refused = false;
  const bool taken = spin_quietly(dictionary, key, self, request, kShortSpin, lease, refused);
  short_spin().note(taken);
  return taken;
}

bool spin_for_lock(Dictionary& dictionary, const Attempt& attempt, Lease& lease, BlockedBy& blocked_by) noexcept {
  const std::uint32_t task = attempt.contender.request.task;
  if (task != whole_state(task) || !adaptive_spin().try_now()) return false;
  const Contender& contender = attempt.contender;
  if (spin_quietly(dictionary, attempt.key, contender.self, contender.request, kLongSpin, lease, blocked_by.refused)) {
    adaptive_spin().note(true);
    return true;
  }
  const Attempt glance{attempt.key, attempt.contender, false};
  TokenSet nobody;  // not const, which would initialise all of it
  const std::uint64_t end_ns = platform::monotonic_ns() + kSpinNs;
  for (;;) {
    blocked_by.holders.clear();
    blocked_by.watch = {};
    const Code code = attempt_lock(dictionary, glance, nobody, lease, blocked_by);
    if (code == Code::ok) break;
    blocked_by.refused = true;
    // Do not spin for a holder in this process: it may be a task that waits for this thread.
    if (code != Code::locked || blocked_by.watch.kind == nullptr || blocked_by.holders.has(attempt.contender.self))
      return false;
    if (!spin_until_open(*static_cast<const LockFields*>(blocked_by.watch.fields), attempt.contender, end_ns)) {
      adaptive_spin().note(false);
      return false;
    }
  }
  adaptive_spin().note(true);
  return true;
}

}  // namespace holdfast
