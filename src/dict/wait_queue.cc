#include "dict/wait_queue.h"

#include "dict/expiry.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr std::uint32_t kShape = Entry::make_shape(0, EntryType::waiter);
constexpr std::uint32_t kGranulesPerWaiter = static_cast<std::uint32_t>(granules_for(0, sizeof(WaiterFields)));

std::uint64_t patience_end() noexcept { return platform::coarse_monotonic_ns() / 1'000'000 + kWaiterPatienceMs; }

}  // namespace

bool WaitQueue::is_waiter(std::uint32_t block) const noexcept {
  View view{};
  return shard_.inspect(block, view) && view.type == EntryType::waiter && view.key_length == 0;
}

WaiterFields& WaitQueue::fields(std::uint32_t block) const noexcept {
  return *reinterpret_cast<WaiterFields*>(&shard_.entry(block) + 1);
}

// An old place never passes for one in the queue: what unlink() takes out is marked as nobody's, and a repair, which
// drops the queues without looking at them, is counted.
bool WaitQueue::is_here(const Waiter& waiter) const noexcept {
  const auto block = static_cast<std::uint32_t>(waiter.place);
  return waiter.place != 0 && waiter.place == place_of(block) && is_waiter(block) &&
         fields(block).owner.load(kRelaxed) == waiter.owner && fields(block).arrival.load(kRelaxed) == waiter.arrival &&
         shard_.entry(block).flags.load(kRelaxed) == waiter.number;
}

// A queue that leads out of its waiters: forget it, and have the shard repaired, which gives the blocks back.
std::uint32_t WaitQueue::give_up() noexcept {
  lock_.head.store(0, kRelaxed);
  lock_.tail.store(0, kRelaxed);
  arena_.set_damaged();
  return 0;
}

// Waiters must not take the memory that values and other locks need.
std::uint32_t WaitQueue::create(const Waiter& waiter) noexcept {
  Word32& count = shard_.header().waiters;
  if (count.load(kRelaxed) >= shard_.granules() / 4 / kGranulesPerWaiter) return 0;
  const std::uint32_t block = arena_.allocate(kGranulesPerWaiter);
  if (block == 0) return 0;
  count.store(count.load(kRelaxed) + 1, kRelaxed);
  Entry& e = shard_.entry(block);
  e.shape.store(kShape, kRelaxed);
  e.value_size.store(sizeof(WaiterFields), kRelaxed);
  e.flags.store(waiter.number, kRelaxed);
  e.spare.store(0, kRelaxed);
  e.expiry.store(patience_end(), kRelaxed);
  fields(block).owner.store(waiter.owner, kRelaxed);
  fields(block).arrival.store(waiter.arrival, kRelaxed);
  return block;
}

std::uint64_t WaitQueue::add(const Waiter& waiter) noexcept {
  if (is_here(waiter)) {
    shard_.entry(static_cast<std::uint32_t>(waiter.place)).expiry.store(patience_end(), kRelaxed);
    return waiter.place;
  }
  // Most arrive last. Who queues again, because another was faster, keeps its turn and is found near the head.
  std::uint32_t before = lock_.tail.load(kRelaxed);
  std::uint32_t after = 0;
  if (before != 0 && !is_waiter(before)) return give_up();
  if (before != 0 && fields(before).arrival.load(kRelaxed) > waiter.arrival) {
    before = 0;
    after = lock_.head.load(kRelaxed);
    for (std::uint32_t steps = 0;; ++steps) {
      if (!is_waiter(after) || steps == shard_.granules()) return give_up();
      if (fields(after).arrival.load(kRelaxed) > waiter.arrival) break;
      before = after;
      after = shard_.entry(after).next.load(kRelaxed);
    }
  }
  const std::uint32_t block = create(waiter);
  if (block == 0) return 0;
  shard_.entry(block).next.store(after, kRelaxed);
  previous(block).store(before, kRelaxed);
  (after != 0 ? previous(after) : lock_.tail).store(block, kRelaxed);
  (before != 0 ? shard_.entry(before).next : lock_.head).store(block, kRelaxed);
  return place_of(block);
}

// REQUIRES: is_waiter(block). False on damage: its neighbours must point back at it.
bool WaitQueue::unlink(std::uint32_t block) noexcept {
  const std::uint32_t before = previous(block).load(kRelaxed);
  const std::uint32_t after = shard_.entry(block).next.load(kRelaxed);
  if ((before != 0 && !is_waiter(before)) || (after != 0 && !is_waiter(after))) return give_up() != 0;
  Word32& link = before != 0 ? shard_.entry(before).next : lock_.head;
  Word32& back = after != 0 ? previous(after) : lock_.tail;
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

Waiter WaitQueue::pop(World& world) noexcept {
  for (std::uint32_t steps = 0; steps < shard_.granules(); ++steps) {
    const std::uint32_t block = lock_.head.load(kRelaxed);
    if (block == 0) break;
    if (!is_waiter(block)) {
      give_up();
      break;
    }
    const Waiter first{fields(block).owner.load(kRelaxed), shard_.entry(block).flags.load(kRelaxed),
                       fields(block).arrival.load(kRelaxed), 0};
    const bool patient = !time_passed(shard_.entry(block).expiry.load(kRelaxed));
    if (!unlink(block)) break;
    if (patient && first.number != 0 && world.slot(first.owner) != nullptr) return first;
  }
  return {kNobody, 0, 0, 0};
}

}  // namespace holdfast
