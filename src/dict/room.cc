#include "dict/room.h"

#include <algorithm>

#include "dict/expiry.h"
#include "dict/list.h"
#include "dict/wait_queue.h"
#include "sync/bell.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr std::uint64_t kNoEnd = ~std::uint64_t{0} / 1'000'000;  // ms

}  // namespace

void Room::discard(std::uint32_t block, const View& view) noexcept {
  if (view.type == EntryType::lock) {
    LockFields& lock = view.lock();
    ShardHeader& header = shard_.header();
    if (lock.owner.load(kRelaxed) == kNobody) header.free_locks.store(header.free_locks.load(kRelaxed) - 1, kRelaxed);
    WaitQueue queue(shard_, arena_, lock);
    for (Waiter waiter = queue.pop(world_); waiter.number != 0; waiter = queue.pop(world_))
      ring_bell(world_, waiter.owner, waiter.number);
  } else if (view.type == EntryType::list) {
    List(shard_, arena_, view).release_nodes();
  }
  arena_.release(block, view.granules);
}

bool Room::due() const noexcept {
  const ShardHeader& header = shard_.header();
  return header.free_locks.load(kRelaxed) != 0 || header.reclaim_flush.load(kRelaxed) != segment_.flush_epoch() ||
         time_passed(header.reclaim_after.load(kRelaxed));
}

Room::Swept Room::sweep(std::uint32_t max) noexcept {
  ShardHeader& header = shard_.header();
  const std::uint32_t flush = segment_.flush_epoch();
  Swept swept;
  std::uint64_t next_end = kNoEnd;
  for (std::uint32_t bucket = 0; bucket < shard_.buckets(); ++bucket) {
    Word32* link = &shard_.bucket(bucket);
    for (std::uint32_t steps = 0; steps < shard_.granules(); ++steps) {
      const std::uint32_t block = link->load(kRelaxed);
      if (block == 0) break;
      View view{};
      if (!shard_.inspect(block, view)) {
        arena_.set_damaged();
        return swept;
      }
      Entry& e = *view.entry;
      const bool keep = Shard::counts(view, flush) || (view.type != EntryType::lock && swept.expired == max);
      if (keep) {
        const std::uint64_t end = expiry_ms(e.expiry.load(kRelaxed));
        if (end != kExpiryNever) next_end = std::min(next_end, end);
        link = &e.next;
        continue;
      }
      ++(view.type == EntryType::lock ? swept.locks : swept.expired);
      commit(*link, e.next.load(kRelaxed));
      discard(block, view);
    }
  }
  header.entries.store(header.entries.load(kRelaxed) - swept.expired - swept.locks, kRelaxed);
  header.expirations.store(header.expirations.load(kRelaxed) + swept.expired, kRelaxed);
  header.reclaim_after.store(next_end, kRelaxed);
  if (swept.expired < max) header.reclaim_flush.store(flush, kRelaxed);
  return swept;
}

Code Room::make(std::uint32_t count, Evict /*evict*/, const Key& key, Place& place, bool& /*evicted*/) noexcept {
  // An arena without entries is one free block: all zero is what is left when somebody wrote over it.
  const ShardHeader& header = shard_.header();
  if (arena_.damaged() || (header.entries.load(kRelaxed) == 0 && header.free_granules.load(kRelaxed) == 0))
    return Code::corrupt;
  if (due()) sweep();
  if (arena_.damaged()) return Code::corrupt;
  if (!shard_.find(key, place)) return Code::corrupt;  // the sweep may have cut what `place` named
  return arena_.can_allocate(count) ? Code::ok : Code::no_memory;
}

}  // namespace holdfast
