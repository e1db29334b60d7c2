#include "lock/handoff.h"

#include <algorithm>
#include <array>

#include "base/failpoint.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/world.h"

namespace holdfast {

namespace {

std::uint32_t overtakes_of(const LockEntry& lock) noexcept { return lock.fields.overtakes.load(kRelaxed); }

// Chooses the waiter to wake, and records that it has been woken. Does not choose a waiter that was already woken.
WakeTarget choose(const LockEntry& lock, const Head& head, std::uint64_t now_ns) noexcept {
  if (head.block == 0 || head.woken) return {};
  lock.queue().note_woken(head, now_ns);
  return wake_target(head.waiter);
}

WakeTarget reserve(const LockEntry& lock, const Turn& turn) noexcept {
  const Waiter& waiter = turn.first.waiter;
  lock.grant(waiter.owner, {.exptime = static_cast<double>(claim_ns(waiter)) / 1e9}, waiter.number);
  return choose(lock, turn.first, turn.now_ns);
}

// Adds up, for display, how long locks were reserved for waiters that had not responded yet. Whole milliseconds are
// enough: grants begin at random times within a millisecond, so the rounding errors cancel out.
void note_reserved_time(const LockEntry& lock) noexcept {
  const std::uint64_t now_ms = platform::monotonic_ns() / 1'000'000;
  const std::uint64_t since_ms = Since{lock.fields.since.load(kRelaxed)}.ms();
  if (now_ms <= since_ms) return;
  Word64& sum = lock.shard.header().lock_reserved_ms;
  sum.store(sum.load(kRelaxed) + std::min(now_ms - since_ms, claim_ns(kDelayMaxNs, false) / 1'000'000), kRelaxed);
}

// Removes the waiter from the queue. The next waiter counts as the first immediately, not only after the next release.
void remove_from_queue(const LockEntry& lock, World& world, const Waiter* waiter) noexcept {
  if (waiter != nullptr && lock.queue().remove(*waiter) && lock.has_waiters()) turn_of(lock, world, false);
}

}  // namespace

void wake_chosen(World& world, const Chosen& chosen) noexcept {
  for (const WakeTarget& target : {chosen.first, chosen.aside}) {
    if (target.number == 0) continue;
    HOLDFAST_FAILPOINT("wake.post");
    post(world, target.owner, target.number);
  }
}

void wake_watchers(Dictionary& dictionary, std::string_view key) noexcept {
  World& world = dictionary.world();
  std::array<WakeTarget, kWokenAtOnce> woken;
  std::size_t count = 0;
  dictionary.transact(
      key,
      [&](Transaction& change) {
        if (!change.is(EntryType::lock)) return Code::ok;
        const LockEntry lock = LockEntry::of(change);
        const std::uint64_t kept = lock.is_free() ? 0 : lock.sequence();
        const std::size_t before = count;
        while (count < woken.size()) {
          const Waiter watcher = lock.watchers().pop(world, kept);
          if (watcher.number == 0) break;
          woken[count++] = wake_target(watcher);
        }
        Word64& wakes = change.shard().header().lock_wakes;
        wakes.store(wakes.load(kRelaxed) + (count - before), kRelaxed);
        return change.arena().damaged() ? Code::corrupt : Code::ok;
      },
      kAttemptPatienceNs);
  for (std::size_t i = 0; i < count; ++i) {
    HOLDFAST_FAILPOINT("watchers.post");
    post(world, woken[i].owner, woken[i].number);
  }
}

Turn turn_of(const LockEntry& lock, World& world, bool fair) noexcept {
  return turn_of(lock.queue(), world, platform::monotonic_ns(), overtakes_of(lock),
                 [fair](const Waiter&) { return !fair; });
}

Chosen offer(const LockEntry& lock, World& world) noexcept {
  const bool watchers = lock.has_watchers();
  if (!lock.has_waiters() || !lock.may_be_granted()) return {{}, {}, watchers};
  const Turn turn = turn_of(lock, world, false);
  const bool kept = turn.first.block != 0 && !may_overtake(turn.first, overtakes_of(lock), false);
  const Chosen chosen{.first = kept ? reserve(lock, turn) : choose(lock, turn.first, turn.now_ns),
                      .aside = choose(lock, turn.aside, turn.now_ns),
                      .watchers = watchers};
  if (lock.gate == nullptr && lock.has_waiters()) let_pass(lock.fields);
  return chosen;
}

bool overtake_first(const LockEntry& lock, const Head& first, bool fair) noexcept {
  if (first.block == 0) return true;
  const std::uint32_t overtakes = overtakes_of(lock);
  if (!may_overtake(first, overtakes, fair)) return false;
  lock.fields.overtakes.store(overtakes + 1, kRelaxed);
  return true;
}

bool may_take(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
              Chosen& chosen) noexcept {
  if (!lock.has_waiters()) return true;
  Turn turn = turn_of(lock, world, contender.request.fair);
  while (turn.first.block != 0 && dead.has(turn.first.waiter.owner)) {
    lock.queue().drop(turn.first);
    turn = turn_of(lock, world, contender.request.fair);
  }
  const Waiter& first = turn.first.waiter;
  if (turn.first.block == 0) return true;
  if (contender.waiter != nullptr) {
    if (contender.waiter->arrival < first.arrival) return true;
    if (contender.self == first.owner && contender.waiter->number == first.number) return true;
  }
  if (overtake_first(lock, turn.first, contender.request.fair)) return true;
  chosen.first = reserve(lock, turn);
  return false;
}

Lease take(const LockEntry& lock, World& world, const Contender& contender) noexcept {
  const Lease lease{contender.self, lock.grant(contender.self, contender.request, 0)};
  if (contender.waiter != nullptr && !contender.waiter->is_new)
    lock.fields.since.store(Statistics::since_wait(platform::monotonic_ns()).bits, kRelaxed);
  remove_from_queue(lock, world, contender.waiter);
  return lease;
}

void end_grant(const LockEntry& lock) noexcept {
  if (lock.fields.reserved.load(kRelaxed) != 0) note_reserved_time(lock);
  lock.free();
}

bool is_reserved_for(const LockEntry& lock, const Waiter* waiter) noexcept {
  return waiter != nullptr && lock.fields.reserved.load(kRelaxed) == waiter->number && lock.owner() == waiter->owner;
}

Lease claim_reserved(const LockEntry& lock, World& world, const Contender& contender) noexcept {
  note_reserved_time(lock);
  lock.fields.reserved.store(0, kRelaxed);
  lock.name_holder(contender.request.holder_task);
  const std::uint64_t now = platform::monotonic_ns();
  lock.fields.since.store(Statistics::since_wait(now).bits, kRelaxed);
  lock.extend(end_of_lease(contender.request.exptime, now), lock.segment.flush_epoch());
  remove_from_queue(lock, world, contender.waiter);
  return {contender.self, lock.sequence()};
}

}  // namespace holdfast
