#include "dict/reclaimer.h"

#include <algorithm>
#include <bitset>

#include "base/failpoint.h"
#include "dict/clock_sweep.h"
#include "dict/dead_owners.h"
#include "dict/expiry.h"
#include "dict/holder_list.h"
#include "dict/list.h"
#include "dict/probes.h"
#include "dict/repair.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

// A sweep reads every entry of the shard. If a sweep of at least kMany entries has reclaimed less than a sixteenth of
// them, the shard does not start another sweep for kRestMs. Otherwise, in a dictionary with many short exptimes, each
// set would scan the whole shard. No benchmark covers these constants, because none is short of memory while values
// expire; reclaimer_test.cc covers them.
constexpr std::uint32_t kMany = 256;
constexpr std::uint32_t kWorthwhile = 16;
constexpr std::uint32_t kRestMs = 5;

// The longest pause of a shard after a search for dead owners that has found none. The pause is a second for each MB,
// but at most a minute. The hints contain the lower 32 bits of a time in microseconds, which repeat after 71 minutes.
// No benchmark covers these constants, because none has a shard full of held locks.
constexpr std::uint32_t kRestUsMax = 60'000'000;
constexpr std::uint32_t rest_of(std::uint32_t granules) noexcept {
  constexpr std::uint32_t kRestUs = 30000;
  constexpr std::uint32_t kRestUsPerGranule = 15;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kRestUs + std::uint64_t{kRestUsPerGranule} * granules, kRestUsMax));
}
static_assert(rest_of((1U << 30) / 15 * 4) == kRestUsMax, "a larger arena does not rest for a shorter time");

// Returns the current time in the form in which a hint stores it. The result is never 0, because a hint of 0 means that
// nothing is recorded.
std::uint32_t short_us() noexcept { return static_cast<std::uint32_t>(platform::monotonic_ns() / 1000) | 1; }

}  // namespace

// Posts once to each process, which then finds out which of its watchers have lost their positions in the queue.
void Reclaimer::wake_watchers(WaitQueue watchers) noexcept {
  std::bitset<kSlots> woken;
  for (Waiter watcher = watchers.pop(world_); watcher.number != 0; watcher = watchers.pop(world_)) {
    const std::uint32_t slot = slot_of(watcher.owner);
    if (slot >= kSlots || woken[slot]) continue;
    woken[slot] = true;
    post_to_all(world_, watcher.owner);
  }
}

std::uint32_t Reclaimer::discard(std::uint32_t block, const EntryView& view) noexcept {
  if (is_holdable(view.type)) {
    ShardHeader& header = shard_.header();
    if (view.type == EntryType::lock || view.is_free())
      header.perhaps_free.store(header.perhaps_free.load(kRelaxed) - 1, kRelaxed);
    WaitQueue queue(shard_, arena_, view.queue());
    for (Waiter waiter = queue.pop(world_); waiter.number != 0; waiter = queue.pop(world_))
      post(world_, waiter.owner, waiter.number);
    if (view.type == EntryType::lock) wake_watchers({shard_, arena_, view.lock().watchers, EntryType::watcher});
    (view.type == EntryType::lock ? reason_of : holders_of)(shard_, arena_, view).release_all();
  } else if (view.type == EntryType::list) {
    List(shard_, arena_, view).release_nodes();
  }
  return arena_.release(block, view.granules);
}

bool Reclaimer::any_dead() const noexcept {
  const ShardHeader& header = shard_.header();
  return header.reclaim_flush.load(kRelaxed) != segment_.flush_epoch() ||
         time_passed(header.reclaim_after.load(kRelaxed));
}

// Returns whether a sweep for free locks and permits is worthwhile. As long as the arena can grow, free locks and
// permits keep their memory, because they are often taken again. If there are only a few, they are left to the clock
// sweep, unless nothing may be evicted.
bool Reclaimer::many_may_be_free(Evict evict) const noexcept {
  const ShardHeader& header = shard_.header();
  const std::uint32_t count = header.perhaps_free.load(kRelaxed);
  return count != 0 && !shard_.can_grow() &&
         (evict == Evict::no || count > header.entries.load(kRelaxed) / kWorthwhile);
}

// Returns whether the shard still pauses. `hint` is the time when the pause began, or 0.
bool Reclaimer::is_lately(const Word32& hint) const noexcept {
  const std::uint32_t last = hint.load(kRelaxed);
  return last != 0 && short_us() - last < rest_of(shard_.granules());
}

bool Reclaimer::asked_lately() const noexcept { return is_lately(shard_.header().asked); }

void Reclaimer::note_asked(bool again) noexcept { shard_.header().asked.store(again ? 0 : short_us(), kRelaxed); }

bool Reclaimer::rests() const noexcept {
  const std::uint32_t left = shard_.header().rest_until.load(kRelaxed) - short_now();
  return left - 1 < 2 * kRestMs;
}

void Reclaimer::rest_if_in_vain(std::uint32_t looked_at, const Swept& swept) noexcept {
  const bool in_vain = looked_at > kMany && swept.expired + swept.locks < looked_at / kWorthwhile;
  shard_.header().rest_until.store(in_vain ? short_now() + kRestMs : 0, kRelaxed);
}

std::uint32_t Reclaimer::take_permits_from_dead(const EntryView& view, const DeadOwners& dead) noexcept {
  PermitFields& permits = view.permits();
  HolderList holders = holders_of(shard_, arena_, view);
  const std::uint32_t found = holders.remove_dead(dead);
  std::uint32_t number = 0;
  std::uint64_t used = 0;
  for (HolderList::Cursor at(holders); at.found(); at.advance()) {
    ++number;
    used += at.fields().count.load(kRelaxed);
  }
  permits.number.store(number, kRelaxed);
  permits.used.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(used, ~0U)), kRelaxed);
  return found;
}

// Ends the grants of dead processes, and removes their waiters and watchers from the queues. Returns the number of
// these grants, waiters and watchers.
std::uint32_t Reclaimer::take_from_dead(const EntryView& view, const DeadOwners& dead) noexcept {
  std::uint32_t found = WaitQueue(shard_, arena_, view.queue()).drop_dead(dead);
  if (view.type == EntryType::lock)
    found += WaitQueue(shard_, arena_, view.lock().watchers, EntryType::watcher).drop_dead(dead);
  if (view.is_free()) return found;
  if (view.type == EntryType::lock) {
    const Token owner = owner_of(world_, view.lock());
    if (!dead.has(owner)) return found;
    probe_takeover(shard_, *view.entry, owner, sequence_of(view.lock(), load_word_of(view.lock())));
    end_grant_of(view.lock());
    reason_of(shard_, arena_, view).clear();
    return found + 1;
  }
  found += take_permits_from_dead(view, dead);
  Word32& perhaps_free = shard_.header().perhaps_free;
  if (view.is_free()) perhaps_free.store(perhaps_free.load(kRelaxed) + 1, kRelaxed);
  return found;
}

void Reclaimer::note_evicted(std::uint32_t hash) noexcept {
  if (shard_.stripes()) wake_watchers_of(world_, shard_.stripes().of(hash));
}

// Sweeps a chain. Returns false on damage.
bool Reclaimer::sweep_chain(std::uint32_t bucket, Sweep& sweep) noexcept {
  Word32* link = &shard_.bucket(bucket);
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    if (!shard_.inspect_in(bucket, block, view)) return false;
    // All entries are distinct, so only circular or merged chains are longer than the arena.
    sweep.walked += view.granules;
    if (sweep.walked > shard_.granules()) return false;
    const bool held = is_holdable(view.type);
    const bool was_unowned = view.type == EntryType::lock && !take_over(view.lock()).is_mutex_owned();
    if (view.type == EntryType::lock) mend_incomplete(world_, view.lock());
    if (held && sweep.dead != nullptr) sweep.swept.dead += take_from_dead(view, *sweep.dead);
    Entry& e = *view.entry;
    if (Shard::counts(view, sweep.flush) || (!held && sweep.swept.expired == sweep.max)) {
      ++sweep.kept;
      const std::uint64_t end = expiry_ms(e.expiry.load(kRelaxed));
      if (end != kExpiryNever) sweep.next_end = std::min(sweep.next_end, end);
      if (was_unowned) release_word(view.lock());
      link = &e.next;
      continue;
    }
    ++(held ? sweep.swept.locks : sweep.swept.expired);
    commit(*link, e.next.load(kRelaxed));
    discard(block, view);
    if (arena_.damaged()) return false;
  }
  return true;
}

Reclaimer::Swept Reclaimer::sweep(std::uint32_t max, const DeadOwners* dead) noexcept {
  HOLDFAST_FAILPOINT("reclaimer.sweep");
  ShardHeader& header = shard_.header();
  Sweep sweep{max, dead, segment_.flush_epoch(), {}, 0, 0, kNever};
  const std::uint32_t entries = header.entries.load(kRelaxed);
  for (std::uint32_t bucket = 0; bucket < shard_.buckets(); ++bucket) {
    if (sweep_chain(bucket, sweep)) continue;
    arena_.set_damaged();
    return sweep.swept;
  }
  const Swept& swept = sweep.swept;
  if (sweep.kept + swept.expired + swept.locks != entries) arena_.set_damaged();
  rest_if_in_vain(entries, swept);
  header.entries.store(sweep.kept, kRelaxed);
  header.expirations.store(header.expirations.load(kRelaxed) + swept.expired, kRelaxed);
  header.reclaim_after.store(sweep.next_end, kRelaxed);
  if (swept.expired < max) header.reclaim_flush.store(sweep.flush, kRelaxed);
  return swept;
}

// Returns whether a search is known to fail. A search that found nothing is remembered. Otherwise, a full dictionary
// would be searched again, with the mutex held, for each key that does not fit. Dictionary::reclaim_from_dead() finds
// out, without the mutex, whether a search has become possible.
bool Reclaimer::is_impossible(std::uint32_t count, Evict evict) const noexcept {
  const ShardHeader& header = shard_.header();
  const auto known = [count](const Word32& least) {
    const std::uint32_t impossible = least.load(kRelaxed);
    return impossible != 0 && impossible <= count;
  };
  return known(header.no_room) ||
         (evict == Evict::no && (header.free_granules.load(kRelaxed) < count || known(header.no_run)));
}

bool Reclaimer::clear(std::uint32_t count, Evict evict, const Position& position, bool& evicted) noexcept {
  if (is_impossible(count, evict)) {
    arena_.set_shortage(Shortage::for_good(count, evict == Evict::yes));
    return false;
  }
  HOLDFAST_FAILPOINT("reclaimer.clear");
  ClockSweep sweep(*this, evict, position.block);
  const bool cleared = sweep.clear(count);
  ShardHeader& header = shard_.header();
  if (!cleared && !sweep.met_unsettled()) (evict == Evict::no ? header.no_run : header.no_room).store(count, kRelaxed);
  if (!cleared)
    arena_.set_shortage(Shortage::for_good(count, evict == Evict::yes));
  else if (sweep.met_held())
    arena_.set_crowded();
  note_failure(sweep, cleared);
  evicted = evicted || sweep.evicted();
  return cleared;
}

// Records a search that failed although it had seemed possible, so that it is not repeated at each call.
void Reclaimer::note_failure(const ClockSweep& sweep, bool cleared) noexcept {
  if (!cleared && sweep.seemed_possible()) shard_.header().failed.store(short_us(), kRelaxed);
}

bool Reclaimer::failed_lately() const noexcept { return is_lately(shard_.header().failed); }

bool Reclaimer::clear_at(std::uint32_t count, const Prospect& prospect) noexcept {
  HOLDFAST_FAILPOINT("reclaimer.clear_at");
  arena_.settle();
  // The hand must name the beginning of a block, so check that there is an entry.
  if (prospect.entry != 0 && shard_.link_to(&shard_.entry(prospect.entry), prospect.hash, kRelaxed) != nullptr)
    shard_.header().hand.store(prospect.entry, kRelaxed);
  ClockSweep sweep(*this, Evict::no, 0);
  const bool cleared = sweep.clear(count);
  note_failure(sweep, cleared);
  if (cleared) shard_.header().failed.store(0, kRelaxed);
  return cleared;
}

Code Reclaimer::make(std::uint32_t count, Evict evict, const Key& key, Position& position, bool& evicted) noexcept {
  // An arena without entries is one free block. If both counts are zero, the header was overwritten.
  const ShardHeader& header = shard_.header();
  if (header.in_use.load(kRelaxed) == 0) repair(shard_);
  if (arena_.damaged() || (header.entries.load(kRelaxed) == 0 && header.free_granules.load(kRelaxed) == 0))
    return Code::corrupt;
  arena_.settle();
  bool swept = (any_dead() || (many_may_be_free(evict) && !is_impossible(count, evict))) && !rests();
  if (swept) sweep();
  for (;; swept = true) {
    // The sweep may have removed or moved the entry that `position` describes.
    if (arena_.damaged() || !shard_.find(key, position)) return Code::corrupt;
    if (arena_.can_allocate(count)) return Code::ok;
    if (shard_.can_grow()) {
      arena_.set_shortage(Shortage::until_grown(count));
      return Code::no_memory;
    }
    const bool cleared = clear(count, evict, position, evicted);
    if (arena_.damaged() || !shard_.find(key, position)) return Code::corrupt;
    if (cleared) return Code::ok;
    if (swept || !any_dead()) return Code::no_memory;
    sweep();
  }
}

}  // namespace holdfast
