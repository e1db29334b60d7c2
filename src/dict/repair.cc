#include "dict/repair.h"

#include <algorithm>
#include <bit>

#include "base/failpoint.h"
#include "base/probe.h"
#include "dict/arena.h"
#include "dict/holder_list.h"
#include "dict/list.h"

namespace holdfast {

namespace {

/// The free bits, used during the repair as a map of the granules that entries occupy.
class Occupied {
 public:
  explicit Occupied(const Shard& shard) noexcept : bits_(shard.free_bits()), granules_(shard.granules()) {}

  void clear() noexcept {
    for (std::uint32_t i = 0; i < (granules_ + 63) / 64; ++i) bits_[i].store(0, kRelaxed);
  }

  /// Marks the run. If a part of it is already marked, returns false and marks nothing.
  bool occupy(std::uint32_t block, std::uint32_t count) noexcept {
    if (find(block, true, block + count) < block + count) return false;
    set(block, count, true);
    return true;
  }

  /// Returns the first granule from `from` to `end` whose state (occupied or not) equals `occupied`. Returns the number
  /// of granules if there is no such granule.
  std::uint32_t find(std::uint32_t from, bool occupied, std::uint32_t end = ~0U) const noexcept {
    while (from < std::min(granules_, end)) {
      std::uint64_t word = bits_[from / 64].load(kRelaxed);
      word = (occupied ? word : ~word) >> from % 64;
      if (word != 0) {
        const std::uint32_t at = from + static_cast<std::uint32_t>(std::countr_zero(word));
        return at < granules_ ? at : granules_;
      }
      from = (from / 64 + 1) * 64;
    }
    return granules_;
  }

  void set(std::uint32_t from, std::uint32_t count, bool occupied) noexcept {
    while (count != 0) {
      const std::uint32_t here = std::min(count, 64 - from % 64);
      const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << from % 64;
      const std::uint64_t old = bits_[from / 64].load(kRelaxed);
      bits_[from / 64].store(occupied ? old | mask : old & ~mask, kRelaxed);
      from += here;
      count -= here;
    }
  }

 private:
  Word64* bits_;
  std::uint32_t granules_;
};

struct Census {
  std::uint32_t entries = 0;
  std::uint32_t perhaps_free = 0;
  std::uint32_t cuts = 0;
  std::uint32_t dropped = 0;  // lists without any node left; they are cut, but still marked as occupied
};

/// Repairs the list. Returns whether anything is left of it.
bool keep_list(const Shard& shard, const EntryView& view, Occupied& occupied, Census& census) noexcept {
  Arena arena(shard);
  List list(shard, arena, view);
  census.cuts +=
      list.repair([&occupied](std::uint32_t block, std::uint32_t count) { return occupied.occupy(block, count); });
  return list.length() != 0;
}

/// Keeps a lock's reason if the grant for which it was written still lasts. Returns the number of cuts. Removing the
/// reason of another grant is not a cut, because such a reason is not damage: it was left behind by a process that died
/// between releasing the lock and releasing the reason.
template <class Occupy>
std::uint32_t keep_reason(const Shard& shard, const EntryView& view, Occupy&& occupy) noexcept {
  LockFields& lock = view.lock();
  const std::uint32_t block = lock.reason.load(kRelaxed);
  if (block == 0) return 0;
  EntryView record{};
  const bool sound = shard.inspect(block, record) && is_holder(record, view.entry->hash.load(kRelaxed));
  const LockWord word = load_word_of(lock);
  const bool current = sound && !word.is_free() && record.holder().sequence.load(kRelaxed) == sequence_of(lock, word);
  if (current && occupy(block, record.granules)) {
    record.entry->next.store(0, kRelaxed);
    return 0;
  }
  commit(lock.reason, 0U);
  return sound && !current ? 0 : 1;
}

void forget(QueueFields& queue) noexcept {
  queue.head.store(0, kRelaxed);
  queue.tail.store(0, kRelaxed);
}

/// Repairs the queues and holders of a lock or of permits: empties the queues, and keeps the holders.
void keep_holders(const Shard& shard, const EntryView& view, Occupied& occupied, Census& census) noexcept {
  if (view.type == EntryType::lock) {
    take_over(view.lock());  // the lock stays taken over until the next operation on it
    forget(view.lock().watchers);
  }
  forget(view.queue());
  Arena arena(shard);
  const auto occupy = [&occupied](std::uint32_t block, std::uint32_t count) { return occupied.occupy(block, count); };
  if (view.type == EntryType::permits) {
    const HolderList::Kept kept = holders_of(shard, arena, view).repair(occupy);
    census.cuts += kept.cuts;
    PermitFields& permits = view.permits();
    permits.used.store(kept.used, kRelaxed);
    permits.number.store(kept.number, kRelaxed);
    permits.looked.store(0, kRelaxed);
    permits.next_end.store(0, kRelaxed);
  } else {
    census.cuts += keep_reason(shard, view, occupy);
  }
  if (view.type == EntryType::lock || view.is_free()) ++census.perhaps_free;
}

// Walks the chain, and cuts it at the first inconsistent link. Never writes to a block that is cut off, because readers
// may use it until the next epoch.
void walk_chain(const Shard& shard, std::uint32_t bucket, Occupied& occupied, Census& census) noexcept {
  Word32* link = &shard.bucket(bucket);
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    // A circular chain also ends here, at a block that is already occupied.
    if (!shard.inspect_in(bucket, block, view) || !occupied.occupy(block, view.granules)) {
      commit(*link, 0U);
      ++census.cuts;
      return;
    }
    if (view.type == EntryType::list && !keep_list(shard, view, occupied, census)) {
      ++census.dropped;
      commit(*link, view.entry->next.load(kRelaxed));
      continue;
    }
    ++census.entries;
    if (is_holdable(view.type)) keep_holders(shard, view, occupied, census);
    link = &view.entry->next;
  }
}

/// Walks all chains, cuts what is inconsistent, and marks the rest as occupied.
Census walk_all(const Shard& shard, Occupied& occupied) noexcept {
  occupied.clear();
  Census census;
  for (std::uint32_t bucket = 0; bucket < shard.buckets(); ++bucket) walk_chain(shard, bucket, occupied, census);
  return census;
}

// Turns the map of occupied granules into free blocks, from left to right. Before `at`, the bits already have their
// final form. After it, they are still the map.
void free_the_rest(const Shard& shard, Occupied& occupied) noexcept {
  Arena arena(shard);
  arena.clear_bins();
  for (std::uint32_t at = 1; at < shard.granules();) {
    const std::uint32_t gap = occupied.find(at, false);
    occupied.set(at, gap - at, false);
    if (gap == shard.granules()) break;
    const std::uint32_t end = occupied.find(gap + 1, true);  // not from `gap`, whose bit may have been overwritten
    arena.add_free(gap, end - gap);
    at = end;
  }
}

}  // namespace

std::uint32_t repair(const Shard& shard) noexcept {
  ShardHeader& header = shard.header();
  // The memory that is overwritten below may have been reachable a moment ago, so use the same order as in
  // Arena::release.
  header.reuse_epoch.store(header.reuse_epoch.load(kRelaxed) + 1, kRelease);
  std::atomic_thread_fence(kRelease);
  crash_order();
  shard.stripes().begin_changes();

  Occupied occupied(shard);
  Census census = walk_all(shard, occupied);
  const std::uint32_t cuts = census.cuts;
  if (census.dropped != 0) census = walk_all(shard, occupied);  // the memory of dropped lists is free now
  if (cuts != 0) {
    HOLDFAST_FAILPOINT("repair.cut");
    // Readers may still use the parts that were cut off.
    header.reuse_epoch.store(header.reuse_epoch.load(kRelaxed) + 1, kRelease);
    std::atomic_thread_fence(kRelease);
  }
  free_the_rest(shard, occupied);
  header.entries.store(census.entries, kRelaxed);
  header.perhaps_free.store(census.perhaps_free, kRelaxed);
  header.waiters.store(0, kRelaxed);
  header.reclaim_after.store(0, kRelaxed);
  header.hand.store(0, kRelaxed);
  header.no_run.store(0, kRelaxed);
  header.no_room.store(0, kRelaxed);
  header.rest_until.store(0, kRelaxed);
  if (header.in_use.load(kRelaxed) != 0 || census.entries != 0)
    header.repairs.store(header.repairs.load(kRelaxed) + 1, kRelaxed);
  header.in_use.store(1, kRelaxed);
  shard.stripes().end_changes();
  HOLDFAST_PROBE4(repair, shard.name(), &header, census.entries, cuts);
  return cuts;
}

}  // namespace holdfast
