#include "dict/wait_queue.h"

#include <algorithm>

#include "dict/dead_owners.h"
#include "dict/expiry.h"
#include "platform/platform.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Returns the time in the units of WaiterFields::woken and first; never 0.
constexpr std::uint32_t ticks(std::uint64_t ns) noexcept { return static_cast<std::uint32_t>(ns >> 10) | 1; }
constexpr std::uint64_t ns_of(std::uint32_t ticks) noexcept { return std::uint64_t{ticks} << 10; }

// The traits of a waiter, in one word: its Entry::stamp. kPresent says that its thread spins, and kTries says that it
// only tries. The other bits are its delay and the kind that it wants.
constexpr std::uint32_t kFair = 1;
constexpr std::uint32_t kPresent = 2;
constexpr std::uint32_t kTries = 4;
constexpr std::uint32_t kKindShift = 3;
constexpr std::uint32_t kKindMask = 3;
constexpr std::uint32_t kDelayShift = 5;

constexpr std::uint32_t traits_of(const Waiter& waiter) noexcept {
  const auto delay = static_cast<std::uint32_t>(std::min(waiter.delay_ns, kDelayMaxNs) >> 10);
  return delay << kDelayShift | static_cast<std::uint32_t>(waiter.kind) << kKindShift | (waiter.fair ? kFair : 0) |
         (waiter.present ? kPresent : 0) | (waiter.tries ? kTries : 0);
}
constexpr HeldKind kind_in(std::uint32_t traits) noexcept {
  return static_cast<HeldKind>(std::min(traits >> kKindShift & kKindMask, kHeldKinds - 1));
}
constexpr bool is_upgrade(HeldKind kind, std::uint32_t want) noexcept {
  return kind == HeldKind::rwlock && want == kAllButOwn;
}
// A lock does not have permits, so the number then only says what the waiter requested.
constexpr std::uint32_t want_in(HeldKind held, HeldKind kind, std::uint32_t want) noexcept {
  return held == HeldKind::lock || held == kind ? want : kAllPermits;
}
constexpr std::uint64_t delay_in(std::uint32_t traits) noexcept {
  return std::min(ns_of(traits >> kDelayShift), kDelayMaxNs);
}

constexpr bool is_past_claim(std::uint32_t woken, std::uint32_t now, std::uint32_t traits) noexcept {
  const std::uint32_t claim = ticks(claim_ns(delay_in(traits), (traits & kFair) != 0));
  return woken != 0 && now - woken >= claim && woken - now >= claim;
}

// Returns when to remove a waiter that no longer checks. So a stopped waiter keeps its position no longer than it would
// have waited.
std::uint64_t deadline_of(const Waiter& waiter) noexcept {
  const std::uint64_t timeout = waiter.rests ? kRestingPatienceMs : kWaiterPatienceMs;
  const std::uint64_t end = platform::coarse_monotonic_ns() / kNsPerMs + timeout;
  return waiter.deadline_ms != 0 ? std::min(end, waiter.deadline_ms) : end;
}

}  // namespace

bool WaitQueue::is_waiter(std::uint32_t block) const noexcept {
  EntryView view{};
  return shard_.inspect(block, view) && view.type == kind_ && view.key_length == 0;
}

WaiterFields& WaitQueue::fields(std::uint32_t block) const noexcept {
  return *reinterpret_cast<WaiterFields*>(&shard_.entry(block) + 1);
}

// Returns whether the waiter is at its position. An old position is never mistaken for a current one: unlink() clears
// the owner of each block that it removes, and the position contains the number of repairs, which drop the queues
// without reading them.
bool WaitQueue::is_here(const Waiter& waiter) const noexcept {
  const auto block = static_cast<std::uint32_t>(waiter.place);
  return waiter.place != 0 && waiter.place == place_of(block) && is_waiter(block) &&
         fields(block).owner.load(kRelaxed) == waiter.owner && fields(block).arrival.load(kRelaxed) == waiter.arrival &&
         shard_.entry(block).flags.load(kRelaxed) == waiter.number;
}

// Drops a queue in which a link leads to a block that is not a waiter. The shard is then repaired, which frees the
// blocks.
std::uint32_t WaitQueue::give_up() noexcept {
  ends_.head.store(0, kRelaxed);
  ends_.tail.store(0, kRelaxed);
  arena_.set_damaged();
  return 0;
}

// Allocates a waiter. Returns 0 if there is no memory. Waiters must not take the memory that values and other locks
// need, so they get at most a quarter of the arena.
std::uint32_t WaitQueue::create(const Waiter& waiter, std::uint32_t overtakes) noexcept {
  Word32& count = shard_.header().waiters;
  const bool too_many = count.load(kRelaxed) >= shard_.all_granules() / 4 / kGranulesPerWaiter;
  const std::uint32_t block = too_many ? 0 : arena_.allocate(kGranulesPerWaiter);
  if (block == 0) {
    arena_.set_crowded();
    if (!too_many && shard_.can_grow()) arena_.set_shortage(Shortage::until_grown(kGranulesPerWaiter));
    return 0;
  }
  count.store(count.load(kRelaxed) + 1, kRelaxed);
  Word64& waits = shard_.header().lock_waits;
  waits.store(waits.load(kRelaxed) + 1, kRelaxed);
  Entry& e = shard_.entry(block);
  e.shape.store(Entry::make_shape(0, kind_), kRelaxed);
  e.value_size.store(sizeof(WaiterFields), kRelaxed);
  e.flags.store(waiter.number, kRelaxed);
  e.stamp.store(traits_of(waiter), kRelaxed);
  e.expiry.store(deadline_of(waiter), kRelaxed);
  fields(block).owner.store(waiter.owner, kRelaxed);
  fields(block).arrival.store(waiter.arrival, kRelaxed);
  fields(block).want.store(waiter.want, kRelaxed);
  fields(block).overtakes.store(overtakes, kRelaxed);
  fields(block).woken.store(0, kRelaxed);
  fields(block).first.store(0, kRelaxed);
  return block;
}

// Refreshes the waiter. REQUIRES: is_here(waiter).
std::uint64_t WaitQueue::refresh(const Waiter& waiter) noexcept {
  const auto block = static_cast<std::uint32_t>(waiter.place);
  shard_.entry(block).expiry.store(deadline_of(waiter), kRelaxed);
  shard_.entry(block).stamp.store(traits_of(waiter), kRelaxed);
  fields(block).woken.store(0, kRelaxed);
  return waiter.place;
}

void WaitQueue::link(std::uint32_t block, std::uint32_t before, std::uint32_t after) noexcept {
  shard_.entry(block).next.store(after, kRelaxed);
  previous(block).store(before, kRelaxed);
  (after != 0 ? previous(after) : ends_.tail).store(block, kRelaxed);
  (before != 0 ? shard_.entry(before).next : ends_.head).store(block, kRelaxed);
}

std::uint64_t WaitQueue::add(const Waiter& waiter, std::uint32_t overtakes) noexcept {
  if (is_here(waiter)) return refresh(waiter);
  // Most waiters belong at the end. A waiter that queues again because another request was faster keeps its position,
  // which is near the head.
  std::uint32_t before = ends_.tail.load(kRelaxed);
  std::uint32_t after = 0;
  if (before != 0 && !is_waiter(before)) return give_up();
  const std::uint64_t order = is_upgrade(waiter.kind, waiter.want) ? 0 : waiter.arrival;
  if (before != 0 && order_of(before) > order) {
    before = 0;
    after = ends_.head.load(kRelaxed);
    for (std::uint32_t steps = 0;; ++steps) {
      if (!is_waiter(after) || steps == shard_.granules()) return give_up();
      if (order_of(after) > order) break;
      before = after;
      after = shard_.entry(after).next.load(kRelaxed);
    }
  }
  const std::uint32_t block = create(waiter, overtakes);
  if (block == 0) return 0;
  link(block, before, after);
  if (before == 0) become_first(block, ticks(waiter.arrival), overtakes);
  return place_of(block);
}

std::uint64_t WaitQueue::append(const Waiter& watcher, std::uint64_t grant) noexcept {
  if (is_here(watcher)) return refresh(watcher);
  const std::uint32_t last = ends_.tail.load(kRelaxed);
  if (last != 0 && !is_waiter(last)) return give_up();
  const std::uint32_t block = create(watcher, static_cast<std::uint32_t>(grant >> 32));
  if (block == 0) return 0;
  fields(block).want.store(static_cast<std::uint32_t>(grant), kRelaxed);
  link(block, last, 0);
  return place_of(block);
}

std::uint64_t WaitQueue::order_of(std::uint32_t block) const noexcept {
  const HeldKind kind = kind_in(shard_.entry(block).stamp.load(kRelaxed));
  return is_upgrade(kind, fields(block).want.load(kRelaxed)) ? 0 : fields(block).arrival.load(kRelaxed);
}

// Returns the grant that the watcher watches. REQUIRES: is_waiter(block).
std::uint64_t WaitQueue::grant_of(std::uint32_t block) const noexcept {
  return std::uint64_t{fields(block).overtakes.load(kRelaxed)} << 32 | fields(block).want.load(kRelaxed);
}

bool WaitQueue::is_first_of_another(std::uint64_t current) const noexcept {
  const std::uint32_t first = ends_.head.load(kRelaxed);
  return first != 0 && (!is_waiter(first) || grant_of(first) != current);
}

// Removes the waiter from the queue. Fails on damage: the neighbours of the waiter must point back at it. REQUIRES:
// is_waiter(block).
bool WaitQueue::unlink(std::uint32_t block) noexcept {
  const std::uint32_t before = previous(block).load(kRelaxed);
  const std::uint32_t after = shard_.entry(block).next.load(kRelaxed);
  if ((before != 0 && !is_waiter(before)) || (after != 0 && !is_waiter(after))) return give_up() != 0;
  Word32& link = before != 0 ? shard_.entry(before).next : ends_.head;
  Word32& back = after != 0 ? previous(after) : ends_.tail;
  if (link.load(kRelaxed) != block || back.load(kRelaxed) != block) return give_up() != 0;
  link.store(after, kRelaxed);
  back.store(before, kRelaxed);
  fields(block).owner.store(kNobody, kRelaxed);
  Word32& count = shard_.header().waiters;
  count.store(count.load(kRelaxed) - 1, kRelaxed);
  crash_order();
  arena_.release(block, kGranulesPerWaiter);
  return true;
}

bool WaitQueue::remove(const Waiter& waiter) noexcept {
  return is_here(waiter) && unlink(static_cast<std::uint32_t>(waiter.place));
}

bool WaitQueue::remove(const Waiter& waiter, HeldKind& kind) noexcept {
  if (!is_here(waiter)) return false;
  kind = waiter_of(static_cast<std::uint32_t>(waiter.place)).kind;
  return remove(waiter);
}

Waiter WaitQueue::waiter_of(std::uint32_t block) const noexcept {
  const Entry& e = shard_.entry(block);
  const WaiterFields& f = fields(block);
  const std::uint32_t traits = e.stamp.load(kRelaxed);
  const HeldKind kind = kind_in(traits);
  const std::uint32_t want = f.want.load(kRelaxed);
  return {.owner = f.owner.load(kRelaxed),
          .number = e.flags.load(kRelaxed),
          .arrival = f.arrival.load(kRelaxed),
          .place = place_of(block),
          .kind = kind,
          .want = want_in(held_, kind, want),
          .fair = (traits & kFair) != 0,
          .present = (traits & kPresent) != 0,
          .upgrades = is_upgrade(kind, want),
          .tries = (traits & kTries) != 0,
          .delay_ns = delay_in(traits)};
}

bool WaitQueue::is_gone(std::uint32_t block, World& world) const noexcept {
  const ProcessSlot* const process = world.slot(fields(block).owner.load(kRelaxed));
  return process == nullptr || shard_.entry(block).flags.load(kRelaxed) == 0 ||
         time_passed(shard_.entry(block).expiry.load(kRelaxed)) ||
         time_passed(process->looked_ms.load(kRelaxed) + kWaiterPatienceMs);
}

// Returns whether a waiter was woken and has not claimed the lock or permits in time.
bool WaitQueue::is_late(std::uint32_t block, std::uint32_t now) const noexcept {
  return is_past_claim(fields(block).woken.load(kRelaxed), now, shard_.entry(block).stamp.load(kRelaxed));
}

std::uint64_t WaitQueue::delay_of(const Waiter& waiter) const noexcept {
  // This waiter had a position, and did not lose it in a repair, so it was removed after it was woken.
  const bool had_place = waiter.place != 0 && waiter.place == place_of(static_cast<std::uint32_t>(waiter.place));
  if (!is_here(waiter)) return had_place ? kMissed : 0;
  const std::uint32_t woken = fields(static_cast<std::uint32_t>(waiter.place)).woken.load(kRelaxed);
  return woken != 0 ? ns_of(ticks(platform::monotonic_ns()) - woken) + 1 : 0;
}

void WaitQueue::become_first(std::uint32_t block, std::uint32_t now, std::uint32_t overtakes) noexcept {
  fields(block).first.store(now, kRelaxed);
  fields(block).overtakes.store(overtakes, kRelaxed);
}

Head WaitQueue::at_or_after(std::uint32_t block, World& world, std::uint64_t now_ns) noexcept {
  const std::uint32_t now = ticks(now_ns);
  for (std::uint32_t steps = 0; steps < shard_.granules(); ++steps) {
    if (block == 0) break;
    if (!is_waiter(block)) {
      give_up();
      break;
    }
    if (is_late(block, now) || is_gone(block, world)) {
      const std::uint32_t gone = block;
      block = shard_.entry(gone).next.load(kRelaxed);
      if (!unlink(gone)) break;
      continue;
    }
    const WaiterFields& f = fields(block);
    const std::uint32_t first = f.first.load(kRelaxed);
    const std::uint32_t woken = f.woken.load(kRelaxed);
    return {.block = block,
            .waiter = waiter_of(block),
            .overtakes = f.overtakes.load(kRelaxed),
            .first_ns = first != 0 ? ns_of(now - first) : 0,
            .woken_ns = woken != 0 ? ns_of(now - woken) : 0,
            .woken = woken != 0};
  }
  return {};
}

void WaitQueue::make_first(Head& head, std::uint64_t now_ns, std::uint32_t overtakes) noexcept {
  if (fields(head.block).first.load(kRelaxed) != 0) return;
  become_first(head.block, ticks(now_ns), overtakes);
  head.overtakes = overtakes;
}

Head WaitQueue::first(World& world, std::uint64_t now_ns, std::uint32_t overtakes) noexcept {
  Head head = at_or_after(ends_.head.load(kRelaxed), world, now_ns);
  if (head.block != 0) make_first(head, now_ns, overtakes);
  return head;
}

void WaitQueue::note_woken(const Head& head, std::uint64_t now_ns) noexcept {
  if (head.woken) return;
  Word64& wakes = shard_.header().lock_wakes;
  wakes.store(wakes.load(kRelaxed) + 1, kRelaxed);
  fields(head.block).woken.store(ticks(now_ns), kRelaxed);
}

std::uint32_t WaitQueue::count() const noexcept {
  const std::uint32_t most = shard_.granules() / kGranulesPerWaiter;
  std::uint32_t count = 0;
  std::uint32_t block = ends_.head.load(kRelaxed);
  for (; block != 0 && count <= most && is_waiter(block); ++count) block = shard_.entry(block).next.load(kRelaxed);
  if (block != 0) arena_.set_damaged();
  return count;
}

std::uint32_t WaitQueue::drop_dead(const DeadOwners& dead) noexcept {
  std::uint32_t found = 0;
  std::uint32_t block = ends_.head.load(kRelaxed);
  for (std::uint32_t steps = 0; block != 0; ++steps) {
    if (!is_waiter(block) || steps == shard_.granules() / kGranulesPerWaiter) {
      give_up();
      break;
    }
    const std::uint32_t next = shard_.entry(block).next.load(kRelaxed);
    if (dead.has(fields(block).owner.load(kRelaxed))) {
      if (!unlink(block)) break;
      ++found;
    }
    block = next;
  }
  return found;
}

// Does the same as WaitQueue::is_here().
bool is_queued(const Shard& shard, std::uint64_t place, Token self, std::uint32_t number) noexcept {
  EntryView view{};
  return static_cast<std::uint32_t>(place >> 32) == static_cast<std::uint32_t>(shard.header().repairs.load(kRelaxed)) &&
         shard.inspect(static_cast<std::uint32_t>(place), view) &&
         (view.type == EntryType::waiter || view.type == EntryType::watcher) && view.key_length == 0 &&
         reinterpret_cast<const WaiterFields*>(view.value())->owner.load(kRelaxed) == self &&
         view.entry->flags.load(kRelaxed) == number;
}

std::uint32_t want_of(const EntryView& waiter, HeldKind held) noexcept {
  const auto& f = *reinterpret_cast<const WaiterFields*>(waiter.value());
  return want_in(held, kind_in(waiter.entry->stamp.load(kRelaxed)), f.want.load(kRelaxed));
}

Glimpse glimpse_first(const Shard& shard, const QueueFields& ends, HeldKind held) noexcept {
  EntryView view{};
  if (!shard.inspect(ends.head.load(kRelaxed), view) || view.type != EntryType::waiter || view.key_length != 0)
    return {};
  const auto& f = *reinterpret_cast<const WaiterFields*>(view.value());
  return {f.owner.load(kRelaxed), view.entry->flags.load(kRelaxed), want_of(view, held),
          is_past_claim(f.woken.load(kRelaxed), ticks(platform::monotonic_ns()), view.entry->stamp.load(kRelaxed))};
}

bool is_first_coming(const Shard& shard, const QueueFields& ends, std::uint64_t first_ns) noexcept {
  EntryView view{};
  if (!shard.inspect(ends.head.load(kRelaxed), view) || view.type != EntryType::waiter || view.key_length != 0)
    return false;
  const auto& f = *reinterpret_cast<const WaiterFields*>(view.value());
  return f.woken.load(kRelaxed) != 0 && ns_of(ticks(platform::monotonic_ns()) - f.first.load(kRelaxed)) <= first_ns;
}

Waiter WaitQueue::pop(World& world, std::uint64_t kept) noexcept {
  for (std::uint32_t steps = 0; steps < shard_.granules(); ++steps) {
    const std::uint32_t block = ends_.head.load(kRelaxed);
    if (block == 0) break;
    if (!is_waiter(block)) {
      give_up();
      break;
    }
    if (kept != 0 && grant_of(block) == kept) break;
    const Waiter first = waiter_of(block);
    const bool gone = is_gone(block, world);
    if (!unlink(block)) break;
    if (!gone) return first;
  }
  return {};
}

}  // namespace holdfast
