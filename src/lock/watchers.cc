#include "lock/watchers.h"

#include "dict/expiry.h"
#include "dict/probes.h"
#include "lock/lock.h"
#include "lock/permits.h"
#include "lock/permits_entry.h"

namespace holdfast {

namespace {

// Returns whether the watcher is still in the queue. A wake-up removes the watcher, and a repair removes all watchers.
bool has_place(const Watch& watch, const WaiterId& watcher) noexcept {
  EntryView view{};
  return watch.shard->inspect(watch.block, view) && view.type == EntryType::watcher &&
         view.value()->load(kRelaxed) == watcher.self && view.entry->flags.load(kRelaxed) == watcher.number;
}

// Checks the grant for a watcher. The result `granted` means that the grant seems to have ended; the next attempt
// decides.
WatchState peek_grant(const Watch& watch, LivenessCache& liveness, const WaiterId& watcher) noexcept {
  if (watch.block != 0 && !has_place(watch, watcher)) return WatchState::granted;
  const auto& fields = *static_cast<const LockFields*>(watch.fields);
  SeenGrant seen{};
  if (!read_grant(*watch.entry, fields, seen)) return WatchState::held;  // the grant is changing; check again
  const Token owner = owner_of(watch.segment->world(), seen);
  const bool goes_on = watch.is_same_entry() && seen.sequence == watch.grant && owner != kNobody && liveness(owner) &&
                       (!seen.complete || is_live(seen.expiry, watch.segment->flush_epoch())) &&
                       !watch.segment->retired() && does_grant_count(*watch.segment, gate_fields_of(watch));
  return goes_on ? WatchState::held : WatchState::granted;
}

Blocker blocker_of_grant(const Watch& watch) noexcept {
  const Blocker blocker = blocker_of_lock(watch);
  return blocker.sequence == watch.grant ? blocker : Blocker{};
}

constexpr WatchKind kGrantWatch{&peek_grant, &blocker_of_grant, &end_of_lock, true, true};

/// Checks once, while the shard's mutex is held, whether the grant has ended.
struct WatchAttempt {
  World& world;
  const Waiter* waiter;  // null: queue no waiter
  const TokenSet& dead;
  std::uint64_t& grant;
  BlockedBy& blocked_by;
  Chosen chosen;
  bool check_is_due = false;  // a check of many holders of permits

  Code at_lock(const LockEntry& lock) noexcept;
  Code at_permits(const PermitsEntry& permits) noexcept;
  Code at_value(const Transaction& change) noexcept;
};

Code WatchAttempt::at_lock(const LockEntry& lock) noexcept {
  const Token owner = lock.owner();
  const std::uint64_t sequence = lock.sequence();
  const bool is_ours = lock.grant_counts();
  if (grant == 0 && !is_ours) return Code::elsewhere;  // another machine may hold the lock
  if (grant == 0 && owner != kNobody) grant = sequence;
  bool held = owner != kNobody && is_ours;
  if (held && (dead.has(owner) || !lock.live(lock.segment.flush_epoch()))) {
    if (dead.has(owner)) probe_takeover(lock.shard, lock.entry, owner, sequence);
    end_grant(lock);
    chosen = offer(lock, world);
    held = false;
  }
  if (!held || sequence != grant) {
    if (waiter != nullptr) lock.watchers().remove(*waiter);
    chosen.watchers = has_watchers_to_wake(lock);
    return Code::ok;
  }
  blocked_by.holders.add(owner);
  blocked_by.end_ms = lock.end_ms();
  blocked_by.place = waiter != nullptr ? lock.watchers().append(*waiter, grant) : 0;
  blocked_by.watch = watch_entry(kGrantWatch, lock, 1);
  blocked_by.watch.queue = &lock.fields.watchers;
  blocked_by.watch.grant = grant;
  blocked_by.watch.block = static_cast<std::uint32_t>(blocked_by.place);
  return Code::locked;
}

Code WatchAttempt::at_permits(const PermitsEntry& permits) noexcept {
  const std::uint32_t flush = permits.segment.flush_epoch();
  if (grant == 0) grant = permits.newest_grant(flush, dead);
  const bool held = permits.has_holder_up_to(grant, flush, dead);
  if (permits.arena.damaged()) return Code::corrupt;
  if (!held) return Code::ok;
  permits.collect_owners(blocked_by.holders);
  if (!permits.has_few_holders() && permits.claim_check(!dead.empty())) check_is_due = true;
  return Code::locked;
}

// Handles a live value, which blocks a watcher just as it blocks a request for the lock.
Code WatchAttempt::at_value(const Transaction& change) noexcept {
  if (!change.exists()) return grant == 0 && change.segment().gate() != nullptr ? Code::elsewhere : Code::ok;
  blocked_by.end_ms = expiry_ms(change.view().entry->expiry.load(kRelaxed));
  return Code::locked;
}

Code attempt_watch(Dictionary& dictionary, std::string_view key, const Waiter* waiter, const TokenSet& dead,
                   std::uint64_t& grant, BlockedBy& blocked_by) noexcept {
  const EpochGuard inside;
  WatchAttempt attempt{dictionary.world(), waiter, dead, grant, blocked_by, {}, false};
  const Code code = dictionary.transact(
      key,
      [&](Transaction& change) {
        blocked_by.place = 0;
        blocked_by.watch = {};
        blocked_by.end_ms = kExpiryNever;
        if (change.is(EntryType::permits)) return attempt.at_permits(PermitsEntry(change));
        if (change.is(EntryType::lock)) return attempt.at_lock(LockEntry::of(change));
        return attempt.at_value(change);
      },
      kAttemptPatienceNs);
  if (waiter != nullptr) keep_watched(*waiter, blocked_by);
  wake(dictionary, key, attempt.chosen);
  if (code == Code::locked && attempt.check_is_due) check_holders(dictionary, key, dead, blocked_by);
  return code;
}

}  // namespace

Code watch_try(Dictionary& dictionary, std::string_view key, std::uint64_t& grant) noexcept {
  World& world = dictionary.world();
  const Token self = world.token();
  if (self == kNobody) return Code::system;
  BlockedBy blocked_by;
  const Code code = try_past_the_dead(world, self, blocked_by, [&](const TokenSet& dead) noexcept {
    return attempt_watch(dictionary, key, nullptr, dead, grant, blocked_by);
  });
  return result_of_try(code, blocked_by);
}

Code watch_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                std::uint64_t& grant) noexcept {
  World& world = dictionary.world();
  const Token self = world.token();
  if (self == kNobody) return Code::system;
  Waiter waiter = step.parker.begin(step.waiter, self);
  if (waiter.arrival == 0) return Code::invalid;
  waiter.deadline_ms = request.timeout > 0 ? end_of_lease(request.timeout) : 0;
  BlockedBy blocked_by;
  blocked_by.parker = &step.parker;
  const Code code = try_past_the_dead(world, self, blocked_by, [&](const TokenSet& dead) noexcept {
    const Code result = attempt_watch(dictionary, key, &waiter, dead, grant, blocked_by);
    if (blocked_by.place != 0)
      waiter.place = blocked_by.place;  // the next attempt removes the waiter from this position
    return result;
  });
  return search_deadlock(step, request, key, conclude_wait(step, waiter, code, blocked_by));
}

}  // namespace holdfast
