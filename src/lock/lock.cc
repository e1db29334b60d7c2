#include "lock/lock.h"

#include "dict/expiry.h"
#include "dict/probes.h"
#include "lock/handoff.h"
#include "lock/permits.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Checks the lock for a waiter. A flush ends every lease, and so does the removal of the dictionary.
WatchState peek_lock(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept {
  const auto& fields = *static_cast<const LockFields*>(watch.fields);
  SeenGrant seen{};
  if (!read_grant(*watch.entry, fields, seen)) return WatchState::held;  // the grant is changing; check again
  const Token owner = owner_of(watch.segment->world(), seen);
  if (owner == waiter.self && fields.reserved.load(kRelaxed) == waiter.number) return WatchState::granted;
  const bool held = owner != kNobody && liveness(owner) &&
                    (!seen.complete || is_live(seen.expiry, watch.segment->flush_epoch())) &&
                    !watch.segment->retired() && watch.is_same_entry();
  return held ? WatchState::held : WatchState::open;
}

// Checks a lock behind a gate. As long as the gate is closed, a waiter treats the lock as held, and retries without
// being woken.
WatchState peek_gated_lock(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept {
  const WatchState state = peek_lock(watch, liveness, waiter);
  return state == WatchState::open && !may_grant(*watch.segment, gate_fields_of(watch)) ? WatchState::held : state;
}

constexpr WatchKind kLockWatch{&peek_lock, &blocker_of_lock, &end_of_lock, true, true};
constexpr WatchKind kGatedLockWatch{&peek_gated_lock, &blocker_of_lock, &end_of_lock, false, true};

Watch watch_lock(const LockEntry& lock) noexcept {
  return watch_entry(lock.segment.gate() != nullptr ? kGatedLockWatch : kLockWatch, lock, 1);
}

// Makes a lock if the key does not have one. Refuses if the key has a value. A lock that does not have all its fields
// was overwritten. REQUIRES: clear_permits() returned ok if the key has permits.
Code make_lock(Transaction& change, BlockedBy& blocked_by) noexcept {
  if (!change.exists() || change.is(EntryType::lock)) return make_free_lock(change);
  blocked_by.place = 0;
  blocked_by.watch = {};
  blocked_by.end_ms = expiry_ms(change.view().entry->expiry.load(kRelaxed));
  return Code::locked;
}

/// The result of an attempt.
struct Result {
  Lease& lease;
  BlockedBy& blocked_by;
  Chosen chosen;           // wake these waiters after releasing the mutex
  bool is_wanted = false;  // tell the gate that the lock is wanted
  CheckState long_check = CheckState::none;
};

void note_delay(const LockEntry& lock, const Waiter* waiter, BlockedBy& blocked_by) noexcept {
  if (waiter != nullptr && blocked_by.delay_ns == 0) blocked_by.delay_ns = lock.queue().delay_of(*waiter);
}

std::uint64_t place_in_queue(const LockEntry& lock, const Waiter* waiter) noexcept {
  return waiter != nullptr ? lock.queue().add(*waiter, lock.fields.overtakes.load(kRelaxed)) : 0;
}

// Refuses a contender while the gate is closed, whatever the entry says, because no process of this machine holds the
// lock.
[[gnu::cold]] Code turn_away(const LockEntry& lock, const Contender& contender, Result& result) noexcept {
  if (is_reserved_for(lock, contender.waiter)) {
    end_grant(lock);
    result.chosen.watchers = lock.has_watchers();
  }
  const Waiter* const waiter = contender.waiter;
  if (waiter == nullptr) {
    result.is_wanted = true;
    return Code::elsewhere;
  }
  const Code refusal = lock.gate != nullptr ? lock.segment.gate()->refusal(*lock.gate, waiter->arrival) : Code::ok;
  if (refusal == Code::unsupported || (refusal != Code::ok && contender.request.tries)) {
    lock.queue().remove(*waiter);
    return refusal;
  }
  result.is_wanted = true;
  result.blocked_by.place = place_in_queue(lock, contender.waiter);
  result.blocked_by.watch = watch_lock(lock);
  return Code::locked;
}

Code try_acquire(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
                 Result& result) noexcept {
  note_delay(lock, contender.waiter, result.blocked_by);
  if (!lock.may_be_granted()) [[unlikely]]
    return turn_away(lock, contender, result);
  if (is_reserved_for(lock, contender.waiter)) {
    result.lease = claim_reserved(lock, world, contender);
    return Code::ok;
  }
  const Code code = clear_lock(lock, world, contender, dead, result.blocked_by, result.chosen);
  if (code == Code::ok) result.lease = take(lock, world, contender);
  return code;
}

// Makes sure that the key has a lock.
Code find_or_make_lock(Transaction& change, const Contender& contender, const TokenSet& dead, Result& result) noexcept {
  if (LockEntry::is_whole(change)) [[likely]]
    return Code::ok;
  if (change.is(EntryType::permits)) {
    const Code code = clear_permits(change, contender, dead, result.blocked_by, result.long_check, result.chosen);
    if (code != Code::ok) return code;
  }
  return make_lock(change, result.blocked_by);
}

}  // namespace

Code clear_lock(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
                BlockedBy& blocked_by, Chosen& chosen) noexcept {
  note_delay(lock, contender.waiter, blocked_by);
  const Token owner = lock.owner();
  const bool is_next = is_reserved_for(lock, contender.waiter);
  if (owner != kNobody && (is_next || dead.has(owner) || !lock.live(lock.segment.flush_epoch()))) {
    if (dead.has(owner)) probe_takeover(lock.shard, lock.entry, owner, lock.sequence());
    end_grant(lock);
    chosen.watchers = lock.has_watchers();
  }
  if (is_next || (lock.is_free() && may_take(lock, world, contender, dead, chosen))) return Code::ok;
  blocked_by.holders.add(lock.owner());
  blocked_by.end_ms = lock.end_ms();
  blocked_by.place = place_in_queue(lock, contender.waiter);
  blocked_by.watch = watch_lock(lock);
  return Code::locked;
}

const GateFields* gate_fields_of(const Watch& watch) noexcept {
  auto& lock = *static_cast<LockFields*>(const_cast<void*>(watch.fields));
  return gate_fields_of(*watch.segment, watch.entry->value_size.load(kRelaxed), lock);
}

Code make_free_lock(Transaction& change) noexcept {
  const std::uint64_t free = LockWord::make(LockWord::kFreeOwner, 0).mutex_owned().bits;
  const ValueIn value{EntryType::lock, 0, free, nullptr,
                      lock_size(change.key().length, change.segment().gate() != nullptr)};
  const Code code = change.put(value, kExpiryNever, Evict::yes);
  Word32& perhaps_free = change.shard().header().perhaps_free;
  if (code == Code::ok) perhaps_free.store(perhaps_free.load(kRelaxed) + 1, kRelaxed);
  return code;
}

// Returns the holder of the watched lock. Reserved and incomplete grants have no task yet. A holder whose grant is no
// longer valid does not block anybody.
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
  const Segment* const segment = dictionary.segment(inside);
  if (segment != nullptr && segment->gate() != nullptr) segment->gate()->want(*segment, Key(key, segment->seed()).hash);
}

// Makes room for a waiter, and evicts values if necessary, because the gate does not ask for a lock without a waiter in
// its queue. Because nobody holds the lock, the lock itself may be evicted, so there must be room for both.
static bool makes_room_for_waiter(Transaction& change, const Contender& contender, Result& result) noexcept {
  constexpr std::uint32_t kAlignment = 4;  // a lock begins at a cache line
  if (!result.is_wanted || contender.waiter == nullptr || result.blocked_by.place != 0) return false;
  const std::size_t key = change.key().length;
  const auto both =
      static_cast<std::uint32_t>(granules_for(key, lock_size(key, true))) + kAlignment + kGranulesPerWaiter;
  return change.make_room(both, Evict::yes) == Code::ok &&
         (LockEntry::is_whole(change) || make_lock(change, result.blocked_by) == Code::ok);
}

Code attempt_lock(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                  Lease& lease, BlockedBy& blocked_by) noexcept {
  const EpochGuard inside;
  World& world = dictionary.world();
  const bool has_gate = dictionary.gate() != nullptr;
  for (CheckState long_check = CheckState::none;;) {
    Result result{lease, blocked_by, {}, false, long_check};
    const Segment* segment = nullptr;
    const Code code = dictionary.transact(
        key,
        [&](Transaction& change) {
          segment = &change.segment();
          wake(world, result.chosen);  // chosen in the first run, which did not find memory
          result.chosen.first = result.chosen.aside = {};
          const Code made = find_or_make_lock(change, contender, dead, result);
          if (made != Code::ok) return made;
          const Code answer = try_acquire(LockEntry::of(change), world, contender, dead, result);
          if (!makes_room_for_waiter(change, contender, result)) [[likely]]
            return answer;
          return try_acquire(LockEntry::of(change), world, contender, dead, result);
        },
        kAttemptPatienceNs, granules_for(key.size(), lock_size(key.size(), has_gate)));
    if (contender.waiter != nullptr) keep_watched(*contender.waiter, blocked_by);
    if (code == Code::ok && segment->was_removed_before_commit()) [[unlikely]] {
      lease = {};  // the dictionary was removed: try again in the next dictionary, if there is one
      continue;
    }
    if (code == Code::ok) trace_acquire(dictionary, key, lease);
    wake(dictionary, key, result.chosen);
    if (result.is_wanted) [[unlikely]]
      tell_gate(dictionary, key);
    if (code != Code::locked || result.long_check != CheckState::due) [[likely]]
      return code;
    if (!check_holders(dictionary, key, dead, blocked_by)) return code;
    long_check = CheckState::done;
  }
}

}  // namespace holdfast
