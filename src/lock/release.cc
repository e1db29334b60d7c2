#include "lock/release.h"

#include <algorithm>

#include "dict/expiry.h"
#include "dict/wait_queue.h"
#include "lock/permits_entry.h"
#include "lock/wait_step.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Runs `on_lock(const LockEntry&) -> Code` or `on_permits(const PermitsEntry&) -> Code`, depending on the type of the
// entry. Returns not_owner for a value, or not_found if there is no entry.
template <class OnLock, class OnPermits>
Code with_entry(Dictionary& dictionary, std::string_view key, OnLock&& on_lock, OnPermits&& on_permits,
                std::uint64_t patience_ns) noexcept {
  return dictionary.transact(
      key,
      [&](Transaction& change) {
        if (change.is(EntryType::permits)) return on_permits(PermitsEntry(change));
        if (change.is(EntryType::lock)) return on_lock(LockEntry::of(change));
        return change.exists() ? Code::not_owner : Code::not_found;
      },
      patience_ns);
}

// Does the same for an operation that changes the grant of `lease`. Runs `on_lock` only if this grant is current and
// complete; otherwise returns the code of judge_grant().
template <class OnLock, class OnPermits>
Code with_grant(Dictionary& dictionary, std::string_view key, const Lease& lease, OnLock&& on_lock,
                OnPermits&& on_permits, std::uint64_t patience_ns = kMutexPatienceNs) noexcept {
  return dictionary.transact(
      key,
      [&](Transaction& change) {
        if (change.is(EntryType::permits)) return on_permits(PermitsEntry(change));
        if (!change.is(EntryType::lock)) return change.exists() ? Code::not_owner : Code::not_found;
        const LockEntry lock = LockEntry::of(change);
        const Code code = judge_grant(change, lease);
        if (code == Code::not_found && !lock.grant_counts()) return Code::not_owner;
        return code == Code::ok ? on_lock(lock) : code;
      },
      patience_ns);
}

// Returns the code for a lease that this process does not have: system if the identity of this process was lost with
// the process table, otherwise not_owner.
Code code_of_no_owner(World& world) noexcept {
  return world.known_token() == kNobody && world.lost() ? Code::system : Code::not_owner;
}

// Returns whether a dead process may hold the lock or the permits, because it is unknown whether one of the holders is
// alive.
bool cannot_judge(World& world, const TokenSet& holders) noexcept {
  return std::any_of(holders.begin(), holders.end(),
                     [&](Token holder) { return world.judge(holder) == Liveness::unknown; });
}

}  // namespace

Code leave_queue(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t number) noexcept {
  const Token self = dictionary.world().token();
  const Waiter waiter = parker.begin(number, self);
  parker.end(number);
  if (self == kNobody || waiter.arrival == 0) return Code::ok;
  Chosen next;
  TokenSet holders;
  bool queued = false;  // whether the waiter was in the queue, and did not only watch
  HeldKind kind = HeldKind::lock;
  const Code code = with_entry(
      dictionary, key,
      [&](const LockEntry& lock) {
        if (is_reserved_for(lock, &waiter)) end_grant(lock);
        holders.add(lock.owner());
        queued = lock.queue().remove(waiter, kind);
        lock.watchers().remove(waiter);
        // The waiter may have been woken to take the lock, which is still free, or to wake other watchers. Do this on
        // its behalf.
        if (lock.is_free()) next = offer(lock, dictionary.world());
        next.watchers = has_watchers_to_wake(lock);
        return Code::ok;
      },
      [&](const PermitsEntry& permits) {
        queued = permits.queue().remove(waiter, kind);
        permits.collect_owners(holders);
        // The next waiter may want fewer permits than this waiter.
        next = permits.offer(dictionary.world());
        return Code::ok;
      },
      kAttemptPatienceNs);
  wake(dictionary, key, next);
  if (queued) count_wait(dictionary, key, kind, waiter.arrival, true);
  if (code == Code::ok && cannot_judge(dictionary.world(), holders)) return Code::system;
  return code == Code::not_owner || code == Code::not_found || code == Code::removed ? Code::ok : code;
}

namespace {

// Releases a lease of any process. The owner of the lease cannot release the lock without the mutex in the meantime,
// because here the owner of the mutex has taken over the lock's word.
Code release(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint64_t patience_ns) noexcept {
  Chosen next;
  Since since{};
  HeldKind kind = HeldKind::lock;
  const Code code = with_grant(
      dictionary, key, lease,
      [&](const LockEntry& lock) {
        if (lock.flushed()) return Code::not_owner;
        const bool lost = !lock.grant_counts();
        since.bits = lock.fields.since.load(kRelaxed);
        end_grant(lock);
        next = offer(lock, dictionary.world());
        return lost ? Code::not_owner : Code::ok;
      },
      [&](const PermitsEntry& permits) {
        kind = permits.kind();
        const Code given = permits.give_back(lease, since);
        if (given == Code::ok) next = permits.offer(dictionary.world());
        return given;
      },
      patience_ns);
  if (code == Code::ok) {
    count_hold(dictionary, kind, since);
    trace_release(dictionary, key, lease);
  }
  wake(dictionary, key, next);
  return code == Code::not_found ? Code::not_owner : code;
}

}  // namespace

Code unlock_slowly(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody || lease.owner != self) {
    const Code code = code_of_no_owner(dictionary.world());
    if (code == Code::not_owner) lease = {};
    return code;
  }
  const Code code = release(dictionary, key, lease, patience_ns);
  if (code == Code::ok || code == Code::not_owner || code == Code::removed) lease = {};
  return code;
}

Code unlock_for_certain(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept {
  const Code code = unlock(dictionary, key, lease, kAttemptPatienceNs);
  if (lease.owner != kNobody && LateReleases::get().add(dictionary, key, lease)) lease = {};
  return code;
}

Code break_lease(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  if (dictionary.world().token() == kNobody) return Code::system;
  return lease.owner == kNobody ? Code::not_owner : release(dictionary, key, lease, kMutexPatienceNs);
}

Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody || lease.owner != self) return code_of_no_owner(dictionary.world());
  const std::uint64_t end = end_of_lease(exptime);
  bool waiters_misled = false;  // their checks and sleeps assume a later end
  const Code code = with_grant(
      dictionary, key, lease,
      [&](const LockEntry& lock) {
        const std::uint32_t flush = lock.segment.flush_epoch();
        if (!lock.grant_counts()) return Code::not_owner;
        if (!lock.live(flush)) return Code::not_found;
        waiters_misled = (lock.has_waiters() || lock.has_watchers()) && ends_earlier(end, lock.end_ms());
        lock.extend(end, flush);
        return Code::ok;
      },
      [&](const PermitsEntry& permits) {
        std::uint64_t before = end;
        const Code extended = permits.extend(lease, end, before);
        waiters_misled = permits.has_waiters() && ends_earlier(end, before);
        return extended;
      });
  if (code == Code::ok && waiters_misled) post_to_everyone(dictionary.world());
  return code;
}

Code adopt(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t task) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody || lease.owner != self) return code_of_no_owner(dictionary.world());
  const Code code = with_grant(
      dictionary, key, lease,
      [&](const LockEntry& lock) {
        if (!lock.live(lock.segment.flush_epoch()) || !lock.grant_counts()) return Code::not_owner;
        lock.name_holder(task);
        return Code::ok;
      },
      [&](const PermitsEntry& permits) { return permits.name_holder(lease, task); });
  return code == Code::not_found ? Code::not_owner : code;
}

// Sets `seconds` to the time until the grant ends. Takes the mutex, because the gate cannot give an exact answer
// without it.
static Code remaining_behind_gate(Dictionary& dictionary, std::string_view key, const Lease& lease,
                                  double& seconds) noexcept {
  const auto on_lock = [&](const LockEntry& lock) {
    const bool ours = lease.owner == dictionary.world().token() && lock.held_by(lease);
    if (!ours || lock.gate == nullptr || !lock.live(lock.segment.flush_epoch())) return Code::not_owner;
    const double counts = lock.segment.gate()->seconds_left(lock.segment, *lock.gate);
    if (counts == 0) return Code::not_owner;
    const std::uint64_t end = lock.end_ms();
    seconds = std::max(end == kExpiryNever ? counts : std::min(counts, seconds_until(end)), 0.001);
    return Code::ok;
  };
  const auto on_permits = [](const PermitsEntry&) { return Code::not_owner; };
  const Code code = with_entry(dictionary, key, on_lock, on_permits, kMutexPatienceNs);
  return code == Code::not_found ? Code::not_owner : code;
}

Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept {
  if (dictionary.gate() != nullptr) [[unlikely]]
    return remaining_behind_gate(dictionary, key, lease, seconds);
  ValueOut out{};
  out.wanted = lease.sequence;
  const Code code = dictionary.get(key, out);
  if (code == Code::removed) return code;
  if (code != Code::ok || !is_holdable(out.type) || out.bits != lease.owner || out.sequence != lease.sequence)
    return Code::not_owner;
  if (lease.owner != dictionary.world().token()) return code_of_no_owner(dictionary.world());
  const std::uint64_t end = expiry_ms(out.expiry);
  seconds = end == kExpiryNever ? 0.0 : std::max(seconds_until(end), 0.001);
  return Code::ok;
}

}  // namespace holdfast
