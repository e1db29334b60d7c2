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

bool WaitQueue::same(std::uint32_t block, const Waiter& waiter) const noexcept {
  return fields(block).owner.load(kRelaxed) == waiter.owner &&
         shard_.entry(block).flags.load(kRelaxed) == waiter.number;
}

// A queue that leads out of its waiters: forget it, and have the shard repaired, which gives the blocks back.
bool WaitQueue::give_up() noexcept {
  lock_.head.store(0, kRelaxed);
  lock_.tail.store(0, kRelaxed);
  arena_.set_damaged();
  return false;
}

// Waiters must not take the memory that values and other locks need.
std::uint32_t WaitQueue::create(const Waiter& waiter, std::uint32_t next) noexcept {
  Word32& count = shard_.header().waiters;
  if (count.load(kRelaxed) >= shard_.granules() / 4 / kGranulesPerWaiter) return 0;
  const std::uint32_t block = arena_.allocate(kGranulesPerWaiter);
  if (block == 0) return 0;
  count.store(count.load(kRelaxed) + 1, kRelaxed);
  Entry& e = shard_.entry(block);
  e.next.store(next, kRelaxed);
  e.hash.store(0, kRelaxed);
  e.shape.store(kShape, kRelaxed);
  e.value_size.store(sizeof(WaiterFields), kRelaxed);
  e.flags.store(waiter.number, kRelaxed);
  e.stamp.store(0, kRelaxed);
  e.expiry.store(patience_end(), kRelaxed);
  fields(block).owner.store(waiter.owner, kRelaxed);
  fields(block).arrival.store(waiter.arrival, kRelaxed);
  return block;
}

bool WaitQueue::add(const Waiter& waiter) noexcept {
  Word32* link = &lock_.head;
  const std::uint32_t tail = lock_.tail.load(kRelaxed);
  if (tail != 0 && !is_waiter(tail)) return give_up();
  // Most arrive last. Who queues again, because another was faster, keeps its place and is found near the head.
  if (tail != 0 && fields(tail).arrival.load(kRelaxed) < waiter.arrival) link = &shard_.entry(tail).next;
  for (std::uint32_t steps = 0;; ++steps) {
    const std::uint32_t block = link->load(kRelaxed);
    if (block == 0) break;
    if (!is_waiter(block) || steps == shard_.granules()) return give_up();
    if (same(block, waiter)) {
      shard_.entry(block).expiry.store(patience_end(), kRelaxed);
      return true;
    }
    if (fields(block).arrival.load(kRelaxed) > waiter.arrival) break;
    link = &shard_.entry(block).next;
  }
  const std::uint32_t next = link->load(kRelaxed);
  const std::uint32_t block = create(waiter, next);
  if (block == 0) return false;
  link->store(block, kRelaxed);
  if (next == 0) lock_.tail.store(block, kRelaxed);
  return true;
}

void WaitQueue::unlink(Word32& link, std::uint32_t previous, std::uint32_t block) noexcept {
  const std::uint32_t next = shard_.entry(block).next.load(kRelaxed);
  link.store(next, kRelaxed);
  if (next == 0) lock_.tail.store(previous, kRelaxed);
  Word32& count = shard_.header().waiters;
  count.store(count.load(kRelaxed) - 1, kRelaxed);
  crash_order();
  arena_.release(block, kGranulesPerWaiter);
}

bool WaitQueue::remove(const Waiter& waiter) noexcept {
  Word32* link = &lock_.head;
  std::uint32_t previous = 0;
  for (std::uint32_t steps = 0;; ++steps) {
    const std::uint32_t block = link->load(kRelaxed);
    if (block == 0) return false;
    if (!is_waiter(block) || steps == shard_.granules()) return give_up();
    if (same(block, waiter)) {
      unlink(*link, previous, block);
      return true;
    }
    previous = block;
    link = &shard_.entry(block).next;
  }
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
                       fields(block).arrival.load(kRelaxed)};
    const bool patient = !time_passed(shard_.entry(block).expiry.load(kRelaxed));
    unlink(lock_.head, 0, block);
    if (patient && first.number != 0 && world.slot(first.owner) != nullptr) return first;
  }
  return {kNobody, 0, 0};
}

}  // namespace holdfast
