#include "lock/handing.h"

#include "lock/turns.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

std::uint32_t passes_of(const LockEntry& lock) noexcept { return lock.fields.passes.load(kRelaxed); }

// Gives the waiter to wake, if it is not on its way already.
Waiter reserve(const LockEntry& lock, const Turn& turn) noexcept {
  const Waiter& waiter = turn.first.waiter;
  lock.grant(waiter.owner, {.exptime = kClaimSeconds}, waiter.number);
  lock.queue().mark_woken(turn.first, turn.now_ns);
  return turn.first.woken ? Waiter{} : waiter;
}

// The next waiter is the first from this moment on, not from when the lock is released again.
void leave_queue(const LockEntry& lock, World& world, const Waiter* waiter) noexcept {
  if (waiter != nullptr && lock.queue().remove(*waiter) && lock.has_waiters()) turn_of(lock, world);
}

}  // namespace

Turn turn_of(const LockEntry& lock, World& world) noexcept {
  const std::uint64_t now_ns = platform::monotonic_ns();
  return {now_ns, lock.queue().first(world, now_ns, passes_of(lock))};
}

Waiter offer(const LockEntry& lock, World& world) noexcept {
  if (!lock.has_waiters()) return {};
  const Turn turn = turn_of(lock, world);
  if (turn.first.block == 0) return {};
  if (!may_pass(turn.first, passes_of(lock), false)) return reserve(lock, turn);
  if (turn.first.woken) return {};
  lock.queue().mark_woken(turn.first, turn.now_ns);
  return turn.first.waiter;
}

bool pass_first(const LockEntry& lock, const Head& first, bool fair) noexcept {
  const std::uint32_t passes = passes_of(lock);
  if (!may_pass(first, passes, fair)) return false;
  lock.fields.passes.store(passes + 1, kRelaxed);
  return true;
}

bool take_turn(const LockEntry& lock, World& world, const Contender& contender, const Owners& dead,
               Waiter& chosen) noexcept {
  if (!lock.has_waiters()) return true;
  Turn turn = turn_of(lock, world);
  while (turn.first.block != 0 && dead.has(turn.first.waiter.owner)) {
    lock.queue().drop(turn.first);
    turn = turn_of(lock, world);
  }
  const Waiter& first = turn.first.waiter;
  if (turn.first.block == 0) return true;
  if (contender.waiter != nullptr) {
    if (contender.waiter->arrival < first.arrival) return true;
    if (contender.self == first.owner && contender.waiter->number == first.number) return true;
  }
  if (pass_first(lock, turn.first, contender.claim.fair)) return true;
  chosen = reserve(lock, turn);
  return false;
}

Lease take(const LockEntry& lock, World& world, const Contender& contender) noexcept {
  const Lease lease{contender.self, lock.grant(contender.self, contender.claim, 0)};
  leave_queue(lock, world, contender.waiter);
  return lease;
}

bool is_reserved_for(const LockEntry& lock, const Waiter* waiter) noexcept {
  return waiter != nullptr && lock.fields.owner.load(kRelaxed) == waiter->owner &&
         lock.fields.reserved.load(kRelaxed) == waiter->number;
}

Lease claim_reserved(const LockEntry& lock, World& world, const Contender& contender) noexcept {
  lock.fields.reserved.store(0, kRelaxed);
  lock.fields.agent.store(contender.claim.agent, kRelaxed);
  lock.extend(expiry_after(contender.claim.exptime), lock.segment.flush_epoch());
  leave_queue(lock, world, contender.waiter);
  return {contender.self, lock.fields.sequence.load(kRelaxed)};
}

}  // namespace holdfast
