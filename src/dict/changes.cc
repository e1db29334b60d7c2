// What changes one entry, or all.
#include <bit>
#include <limits>

#include "base/failpoint.h"
#include "dict/audit.h"
#include "dict/dead_owners.h"
#include "dict/dictionary.h"
#include "dict/expiry.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

/// For a shard of which memory is to be reclaimed: not more than an attempt waits for it.
constexpr std::uint64_t kReclaimPatienceNs = 50'000'000;

/// Whether storing the value over this entry would change nothing but the word of a number or a boolean: one store,
/// then, and no new entry.
bool differs_by_a_word(const View& view, const ValueIn& value, std::uint64_t expiry) noexcept {
  return view.type == value.type && (value.type == EntryType::number || value.type == EntryType::boolean) &&
         view.entry->flags.load(kRelaxed) == value.flags && view.entry->expiry.load(kRelaxed) == expiry;
}

bool same_bytes(const Word64* words, const char* bytes, std::size_t count) noexcept {
  for (; count >= 8; count -= 8, bytes += 8, ++words)
    if (words->load(kRelaxed) != load_word(bytes)) return false;
  return count == 0 || words->load(kRelaxed) == load_tail(bytes, count);
}

/// Numbers as numbers: 0 is -0, and not-a-number is nothing, not even itself.
bool same_value(const View& view, const ValueIn& value) noexcept {
  if (view.type != value.type) return false;
  switch (value.type) {
    case EntryType::number:
      return std::bit_cast<double>(view.value()->load(kRelaxed)) == std::bit_cast<double>(value.bits);
    case EntryType::boolean:
      return view.value()->load(kRelaxed) == value.bits;
    case EntryType::string:
    case EntryType::table:
      return view.value_size == value.size && same_bytes(view.value(), value.data, value.size);
    default:
      return false;
  }
}

bool can_ever_fit(const Segment& segment, std::size_t key_length, std::size_t value_size) noexcept {
  return value_size <= std::numeric_limits<std::uint32_t>::max() &&
         granules_for(key_length, value_size) <= segment.geometry().block_max();
}

Evict eviction_for(StoreOp op) noexcept {
  return op == StoreOp::safe_set || op == StoreOp::safe_add ? Evict::no : Evict::yes;
}

}  // namespace

Code Dictionary::put(Segment& segment, Shard& shard, Arena& arena, const Key& key, Place& place, const ValueIn& value,
                     std::uint64_t expiry_at_ms, Evict evict, Effect& effect) noexcept {
  const auto count = static_cast<std::uint32_t>(granules_for(key.length, value.size));
  Room room(world_, segment, shard, arena);
  std::uint32_t block = arena.allocate(count);
  if (block == 0) {
    const Code code = room.make(count, evict, key, place, effect.evicted);
    if (code != Code::ok) return code;
    block = arena.allocate(count);
    if (block == 0) return Code::corrupt;
  }
#ifdef HOLDFAST_TEST_MISORDER  // links the entry before it is filled: tests/crash proves with it that it would notice
  commit(*place.link, block);
#endif
  shard.fill(block, key, value, expiry_word(expiry_at_ms, segment.flush_epoch()));
  ShardHeader& header = shard.header();
  if (expiry_at_ms != kExpiryNever && expiry_at_ms < header.reclaim_after.load(kRelaxed))
    header.reclaim_after.store(expiry_at_ms, kRelaxed);
  const Place old = place;
  shard.entry(block).next.store(old.block != 0 ? old.view.entry->next.load(kRelaxed) : 0, kRelaxed);
  commit(*place.link, block);
  if (old.block != 0) {
    const std::uint8_t uses = shard.mark(old.block).load(kRelaxed);
    room.discard(old.block, old.view);
    shard.mark(block).store(uses, kRelaxed);
    shard.touch(block);
  } else {
    shard.mark(block).store(0, kRelaxed);
    header.entries.store(header.entries.load(kRelaxed) + 1, kRelaxed);
  }
  place.block = block;
  place.view = {&shard.entry(block), value.type, key.length, static_cast<std::uint32_t>(value.size), count};
  return Code::ok;
}

// Inline: to hand its arguments on would be a tenth of setting a number again.
[[gnu::always_inline]] inline Code Dictionary::write(Segment& segment, Shard& shard, Arena& arena, const Key& key,
                                                     Place& place, const ValueIn& value, std::uint64_t expiry_at_ms,
                                                     Evict evict, Effect& effect) noexcept {
  if (place.block != 0 && differs_by_a_word(place.view, value, expiry_word(expiry_at_ms, segment.flush_epoch()))) {
    commit(*place.view.value(), value.bits);
    shard.touch(place.block);
    return Code::ok;
  }
  return put(segment, shard, arena, key, place, value, expiry_at_ms, evict, effect);
}

// REQUIRES: place.block is not 0.
void Dictionary::cut(Segment& segment, Shard& shard, Arena& arena, const Place& place) noexcept {
  commit(*place.link, place.view.entry->next.load(kRelaxed));
  Room(world_, segment, shard, arena).discard(place.block, place.view);
  ShardHeader& header = shard.header();
  header.entries.store(header.entries.load(kRelaxed) - 1, kRelaxed);
}

Code Dictionary::store(StoreOp op, std::string_view name, const ValueIn& value, double exptime,
                       Effect& effect) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  if (!can_ever_fit(*now, name.size(), value.size)) return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = end_of_value(exptime);
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (op != StoreOp::set && op != StoreOp::safe_set) {
      const bool exists = place.block != 0 && Shard::counts(place.view, now->flush_epoch());
      if (op == StoreOp::replace && !exists) return Code::not_found;
      if (op != StoreOp::replace && exists) return Code::exists;
    }
    return write(*now, shard, arena, key, place, value, end, eviction_for(op), effect);
  });
}

Code Dictionary::remove(std::string_view name) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), now->seed());
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (place.block == 0) return Code::not_found;
    const bool existed = Shard::counts(place.view, now->flush_epoch());
    cut(*now, shard, arena, place);
    return existed ? Code::ok : Code::not_found;
  });
}

Code Dictionary::compare_and_swap(std::string_view name, const ValueIn* expected, const ValueIn* desired,
                                  double exptime, Effect& effect) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  if (desired != nullptr && !can_ever_fit(*now, name.size(), desired->size)) return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = end_of_value(exptime);
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    const bool exists = place.block != 0 && Shard::counts(place.view, now->flush_epoch());
    if (expected == nullptr && exists) return Code::exists;
    if (expected != nullptr && !exists) return Code::not_found;
    if (expected != nullptr && !same_value(place.view, *expected)) return Code::differs;
    if (desired != nullptr) return write(*now, shard, arena, key, place, *desired, end, Evict::yes, effect);
    if (exists) cut(*now, shard, arena, place);
    return Code::ok;
  });
}

Code Dictionary::increment(std::string_view name, double by, const Initial* initial, double& sum,
                           Effect& effect) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  if (!can_ever_fit(*now, name.size(), sizeof(double))) return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = initial != nullptr ? end_of_value(initial->exptime) : kExpiryNever;
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (place.block != 0 && Shard::counts(place.view, now->flush_epoch())) {
      if (place.view.type != EntryType::number) return Code::not_a_number;
      Word64& word = *place.view.value();
      sum = std::bit_cast<double>(word.load(kRelaxed)) + by;
      commit(word, std::bit_cast<std::uint64_t>(sum));
      shard.touch(place.block);
      return Code::ok;
    }
    if (initial == nullptr) return Code::not_found;
    sum = initial->value + by;
    const ValueIn value{EntryType::number, 0, std::bit_cast<std::uint64_t>(sum), nullptr, sizeof(double)};
    return put(*now, shard, arena, key, place, value, end, Evict::yes, effect);
  });
}

Code Dictionary::expire(std::string_view name, double exptime) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t value_end = end_of_value(exptime);
  return mutate(*now, key.hash, [&](Shard& shard, Arena&) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    const std::uint32_t flush = now->flush_epoch();
    if (place.block == 0 || !Shard::counts(place.view, flush)) return Code::not_found;
    const std::uint64_t end = is_holdable(place.view.type) ? end_of_lease(exptime) : value_end;
    commit(place.view.entry->expiry, expiry_word(end, flush));
    ShardHeader& header = shard.header();
    if (end != kExpiryNever && end < header.reclaim_after.load(kRelaxed)) header.reclaim_after.store(end, kRelaxed);
    return Code::ok;
  });
}

// One step for all shards: whatever carries another epoch is gone. The epoch has 20 bits; before it could come round to
// one that an entry still carries, the dead are swept out. Killed in the sweep, the next flush begins it again.
Code Dictionary::flush_all() noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  Word32& epoch = now->header().flush_epoch;
  std::uint32_t before = epoch.load(kRelaxed);
  if (((before + 1) & (kFlushMask >> 1)) == 0) {
    std::uint32_t count = 0;
    const Code code = flush_expired(~0U, count);
    if (code != Code::ok) return code;
  }
  HOLDFAST_FAILPOINT("flush.looked");
  // Where another has counted meanwhile, that flushed all there was when this call began. To count on from there could
  // pass over a sweep.
  epoch.compare_exchange_strong(before, before + 1, std::memory_order_acq_rel);
  return Code::ok;
}

Code Dictionary::flush_expired(std::uint32_t max, std::uint32_t& count) noexcept {
  count = 0;
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  for (Shard& shard : now->shards()) {
    if (count == max) break;
    const DeadOwners dead(shard, world_);
    const ShardGuard guard(shard);
    if (!guard.held()) return guard.code();
    // Before the sweep, which must free nothing twice. A look that meets a broken chain misses keys, hence the second.
    for (int looks = 0; looks < 2 && !audit(shard, now->seed()); ++looks) repair(shard);
    Arena arena(shard);
    count += Room(world_, *now, shard, arena).sweep(max - count, &dead).expired;
    if (arena.damaged()) repair(shard);
  }
  return Code::ok;
}

// After an operation that met memory short, and `looks` looks for memory of the dead: what the call ends with; nothing
// if the operation is to be run again.
std::optional<Code> Dictionary::reclaim(Segment& segment, Shard& shard, int looks, Code result) noexcept {
  const bool needed = result == Code::no_memory;
  if (looks == kLooksMax || (looks != 0 && !needed)) return result;
  bool found = false;
  const Code looked = reclaim_from_dead(segment, shard, needed, found);
  if (!needed) return result;
  if (looked != Code::ok) return looked;
  // Again in any case: others may have found what there was after this had failed. And as long as there is something:
  // others may have taken it, and died since.
  if (looks == 0 || found) return std::nullopt;
  return result;
}

// Where memory is short though something is held: takes what the dead have, or damage. Not ok if the mutex is not to be
// had. It is not done all the time: a dictionary full of locks of living processes would go over itself at each call.
// After a look in vain it rests for a time that grows with the shard; where nothing depends on it, for much longer.
// An operation that would fail still looks meanwhile whether anybody has died since, without the mutex. `found`:
// whether there was anything.
Code Dictionary::reclaim_from_dead(Segment& segment, Shard& shard, bool needed, bool& found) noexcept {
  found = false;
  const std::uint32_t rest_us = (1000 + shard.granules() / 2) * (needed ? 1 : 30);
  const auto now = static_cast<std::uint32_t>(platform::monotonic_ns() / 1000);
  Word32& asked = shard.header().asked;
  const std::uint32_t last = asked.load(kRelaxed);
  const bool rests = last != 0 && now - last < rest_us;
  if (rests && !needed) return Code::ok;
  const DeadOwners dead(shard, world_);
  if (rests && !dead.any()) return Code::ok;
  {
    const ShardGuard guard(shard, kReclaimPatienceNs);
    if (!guard.held()) return guard.code();
    const bool damaged = needed && !audit(shard, segment.seed());
    if (damaged) repair(shard);
    Arena arena(shard);
    const Room::Swept swept = Room(world_, segment, shard, arena).sweep(~0U, &dead);
    if (arena.damaged()) repair(shard);
    found = damaged || arena.damaged() || swept.dead + swept.locks + swept.expired != 0;
    asked.store(found ? 0 : now | 1, kRelaxed);
  }
  HOLDFAST_FAILPOINT("reclaim.done");
  return Code::ok;
}

}  // namespace holdfast
