#include "dict/dictionary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "dict/expiry.h"
#include "dict/wait_queue.h"
#include "platform/platform.h"
#include "sync/bell.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr int kReadTries = 64;
constexpr std::uint64_t kReadPatienceNs = 10'000'000;

double seconds_until(std::uint64_t ms) noexcept {
  const double left = static_cast<double>(ms) / 1e3 - static_cast<double>(platform::monotonic_ns()) / 1e9;
  return std::max(left, 0.001);  // live, though its end may be less than a tick away: 0 would say "never"
}

}  // namespace

// --- handles ---

Expected<std::unique_ptr<Dictionary>> Dictionary::open(World& world, std::string name,
                                                       const DictionaryOptions& options) {
  std::unique_ptr<Dictionary> handle(new Dictionary(world, std::move(name), options));
  auto segment =
      options.size == 0 ? Segment::attach(world, handle->name_) : Segment::open(world, handle->name_, options);
  if (!segment) return segment.status();
  handle->adopt(std::move(*segment));
  return handle;
}

Segment* Dictionary::adopt(std::unique_ptr<Segment> next) {
  segments_.push_back(std::move(next));
  segment_.store(segments_.back().get(), std::memory_order_release);  // pairs with segment()
  return segments_.back().get();
}

void Dictionary::world_token() noexcept { (void)world_.token(); }

// The dictionary was removed, or its world ended while this process, a forked child, was not in it. Only the latter
// makes a new one.
Segment* Dictionary::refresh() noexcept {
  try {
    const platform::ForkGuard no_fork;  // a child must not find the mutex held by a thread that it does not have
    const std::lock_guard<std::mutex> lock(refreshing_);
    Segment* now = segment_.load(std::memory_order_acquire);
    if (!now->retired()) return now;
    const bool ended = now->header().file.retired.load(kRelaxed) == kRetiredWithWorld;
    auto next = ended && options_.size != 0 ? Segment::open(world_, name_, options_) : Segment::attach(world_, name_);
    if (!next) return nullptr;
    return adopt(std::move(*next));
  } catch (...) {  // no memory for the bookkeeping
    return nullptr;
  }
}

Status Dictionary::reopen(const DictionaryOptions& options) {
  Segment* now = segment();
  if (now == nullptr) {
    const std::lock_guard<std::mutex> lock(refreshing_);
    auto next = Segment::open(world_, name_, options);
    if (!next) return next.status();
    now = adopt(std::move(*next));
  }
  Status same = now->check_same(name_, options);
  if (same.ok()) {
    const std::lock_guard<std::mutex> lock(refreshing_);
    options_ = options;
  }
  return same;
}

// --- entries ---

// Gives the block of an entry that was just cut from its chain back. Who waited for a lock looks again.
void Dictionary::discard(Shard& shard, Arena& arena, std::uint32_t block, const View& view) noexcept {
  if (view.type == EntryType::lock) {
    LockFields& lock = view.lock();
    ShardHeader& header = shard.header();
    if (lock.owner.load(kRelaxed) == kNobody) header.free_locks.store(header.free_locks.load(kRelaxed) - 1, kRelaxed);
    WaitQueue queue(shard, arena, lock);
    for (Waiter waiter = queue.pop(world_); waiter.number != 0; waiter = queue.pop(world_))
      ring_bell(world_, waiter.owner, waiter.number);
  }
  arena.release(block, view.granules);
}

// Cuts all entries of the shard that no longer count. True if there were any.
bool Dictionary::reclaim(Segment& segment, Shard& shard, Arena& arena) noexcept {
  ShardHeader& header = shard.header();
  const std::uint32_t flush = segment.flush_epoch();
  const bool nothing_due = header.free_locks.load(kRelaxed) == 0 && header.reclaim_flush.load(kRelaxed) == flush &&
                           !time_passed(header.reclaim_after.load(kRelaxed));
  if (nothing_due) return false;
  std::uint32_t cut = 0;
  std::uint64_t next_end = ~std::uint64_t{0} / 1'000'000;
  for (std::uint32_t bucket = 0; bucket < shard.buckets(); ++bucket) {
    Word32* link = &shard.bucket(bucket);
    for (std::uint32_t steps = 0; steps < shard.granules(); ++steps) {
      const std::uint32_t block = link->load(kRelaxed);
      if (block == 0) break;
      View view{};
      if (!shard.inspect(block, view)) {
        arena.set_damaged();
        return false;
      }
      Entry& e = *view.entry;
      if (Shard::counts(view, flush)) {
        const std::uint64_t end = expiry_ms(e.expiry.load(kRelaxed));
        if (end != kExpiryNever) next_end = std::min(next_end, end);
        link = &e.next;
        continue;
      }
      commit(*link, e.next.load(kRelaxed));
      discard(shard, arena, block, view);
      ++cut;
    }
  }
  header.entries.store(header.entries.load(kRelaxed) - cut, kRelaxed);
  header.reclaim_after.store(next_end, kRelaxed);
  header.reclaim_flush.store(flush, kRelaxed);
  return cut != 0;
}

Code Dictionary::put(Segment& segment, Shard& shard, Arena& arena, const Key& key, Place& place, const ValueIn& value,
                     std::uint64_t expiry_at_ms) noexcept {
  const auto count = static_cast<std::uint32_t>(granules_for(key.length, value.size));
  std::uint32_t block = arena.allocate(count);
  if (block == 0) {
    // An arena without entries is one free block: all zero is what is left when somebody wrote over it.
    const ShardHeader& found = shard.header();
    if (arena.damaged() || (found.entries.load(kRelaxed) == 0 && found.free_granules.load(kRelaxed) == 0))
      return Code::corrupt;
    if (!reclaim(segment, shard, arena)) return arena.damaged() ? Code::corrupt : Code::no_memory;
    if (!shard.find(key, place)) return Code::corrupt;  // the sweep may have cut what `place` named
    block = arena.allocate(count);
    if (block == 0) return arena.damaged() ? Code::corrupt : Code::no_memory;
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
  if (old.block != 0)
    discard(shard, arena, old.block, old.view);
  else
    header.entries.store(header.entries.load(kRelaxed) + 1, kRelaxed);
  place.block = block;
  place.view = {&shard.entry(block), value.type, key.length, static_cast<std::uint32_t>(value.size), count};
  return Code::ok;
}

// --- changes ---

// Whether storing the value over this entry would change nothing but the word of a number or a boolean: one store,
// then, and no new entry.
bool Dictionary::differs_by_a_word(const View& view, const ValueIn& value, std::uint64_t expiry) noexcept {
  return view.type == value.type && (value.type == EntryType::number || value.type == EntryType::boolean) &&
         view.entry->flags.load(kRelaxed) == value.flags && view.entry->expiry.load(kRelaxed) == expiry;
}

Code Dictionary::store(StoreOp op, std::string_view name, const ValueIn& value, double exptime) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  if (value.size > std::numeric_limits<std::uint32_t>::max() ||
      granules_for(name.size(), value.size) > now->geometry().block_max())
    return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = expiry_after(exptime);
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (op != StoreOp::set) {
      const bool exists = place.block != 0 && Shard::counts(place.view, now->flush_epoch());
      if (op == StoreOp::add && exists) return Code::exists;
      if (op == StoreOp::replace && !exists) return Code::not_found;
    }
    if (place.block != 0 && differs_by_a_word(place.view, value, expiry_word(end, now->flush_epoch()))) {
      commit(*place.view.value(), value.bits);
      return Code::ok;
    }
    return put(*now, shard, arena, key, place, value, end);
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
    commit(*place.link, place.view.entry->next.load(kRelaxed));
    discard(shard, arena, place.block, place.view);
    ShardHeader& header = shard.header();
    header.entries.store(header.entries.load(kRelaxed) - 1, kRelaxed);
    return existed ? Code::ok : Code::not_found;
  });
}

Code Dictionary::increment(std::string_view name, double by, const Initial* initial, double& sum) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  if (granules_for(name.size(), sizeof(double)) > now->geometry().block_max()) return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = initial != nullptr ? expiry_after(initial->exptime) : kExpiryNever;
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (place.block != 0 && Shard::counts(place.view, now->flush_epoch())) {
      if (place.view.type != EntryType::number) return Code::not_a_number;
      Word64& word = *place.view.value();
      sum = std::bit_cast<double>(word.load(kRelaxed)) + by;
      commit(word, std::bit_cast<std::uint64_t>(sum));
      return Code::ok;
    }
    if (initial == nullptr) return Code::not_found;
    sum = initial->value + by;
    const ValueIn value{EntryType::number, 0, std::bit_cast<std::uint64_t>(sum), nullptr, sizeof(double)};
    return put(*now, shard, arena, key, place, value, end);
  });
}

Code Dictionary::expire(std::string_view name, double exptime) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), now->seed());
  const std::uint64_t end = expiry_after(exptime);
  return mutate(*now, key.hash, [&](Shard& shard, Arena&) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    const std::uint32_t flush = now->flush_epoch();
    if (place.block == 0 || !Shard::counts(place.view, flush)) return Code::not_found;
    commit(place.view.entry->expiry, expiry_word(end, flush));
    ShardHeader& header = shard.header();
    if (end != kExpiryNever && end < header.reclaim_after.load(kRelaxed)) header.reclaim_after.store(end, kRelaxed);
    return Code::ok;
  });
}

// One step for all shards: whatever carries another epoch is gone. The epoch has 24 bits; before it could come round to
// one that an entry still carries, the dead are swept out. Killed in the sweep, the next flush begins it again.
Code Dictionary::flush_all() noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  Word32& epoch = now->header().flush_epoch;
  std::uint32_t old = epoch.load(kRelaxed);
  if (((old + 1) & (kFlushMask >> 1)) == 0) {
    for (Shard& shard : now->shards()) {
      const ShardGuard guard(shard);
      if (!guard.held()) return guard.code();
      Arena arena(shard);
      shard.header().reclaim_after.store(0, kRelaxed);
      reclaim(*now, shard, arena);
      if (arena.damaged()) repair(shard);
    }
  }
  epoch.fetch_add(1, std::memory_order_acq_rel);
  return Code::ok;
}

// --- reads ---

Code Dictionary::read_busy(Shard& shard, const Key& key, ValueOut& out, Shard::Read& result) noexcept {
  const ShardGuard guard(shard, kReadPatienceNs);
  if (!guard.held()) return guard.code();
  result = shard.read(key, out);
  if (result == Shard::Read::torn) {  // nobody else writes: the chain is damaged
    repair(shard);
    result = shard.read(key, out);
  }
  return Code::ok;
}

Shard::Read Dictionary::read(Segment& segment, const Key& key, ValueOut& out) noexcept {
  Shard& shard = segment.shard_of(key.hash);
  // Torn again and again means that writers are at work, so the mutex will come free; if it does not, because its owner
  // was stopped, then nobody writes and the next read is whole.
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < kReadTries; ++i) {
      const Shard::Read result = shard.read(key, out);
      if (result != Shard::Read::torn) [[likely]]
        return result;
      platform::cpu_relax();
    }
    Shard::Read result{};
    if (read_busy(shard, key, out, result) == Code::ok) return result;
  }
  return Shard::Read::torn;
}

Code Dictionary::get(std::string_view name, ValueOut& out) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), now->seed());
  const Shard::Read result = read(*now, key, out);
  if (result == Shard::Read::missing) return Code::not_found;
  if (result == Shard::Read::torn) return Code::timeout;
  if (!is_live(out.expiry, now->flush_epoch())) return Code::not_found;
  if (out.type == EntryType::lock && out.bits != world_.token() && !world_.alive(out.bits)) return Code::not_found;
  return result == Shard::Read::found ? Code::ok : Code::buffer;
}

Code Dictionary::ttl(std::string_view name, double& seconds) noexcept {
  ValueOut out{};
  const Code code = get(name, out);
  if (code != Code::ok && code != Code::buffer) return code;
  const std::uint64_t end = expiry_ms(out.expiry);
  seconds = end == kExpiryNever ? 0.0 : seconds_until(end);
  return Code::ok;
}

Code Dictionary::keys_of(Shard& shard, std::uint32_t bucket, std::uint32_t flush, std::uint32_t max,
                         std::string& packed, std::uint32_t& count) {
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < kReadTries; ++i)
      if (shard.copy_keys(bucket, flush, max, packed, count)) return Code::ok;
    std::size_t bound = 0;
    {
      const ShardGuard guard(shard, kReadPatienceNs);
      if (!guard.held()) continue;
      bound = shard.keys_bound(bucket);
      // No allocation while a mutex is held.
      if (packed.capacity() - packed.size() >= bound) {
        if (!shard.copy_keys(bucket, flush, max, packed, count)) {
          repair(shard);
          shard.copy_keys(bucket, flush, max, packed, count);
        }
        return Code::ok;
      }
    }
    packed.reserve(packed.size() + bound);
  }
  return Code::timeout;
}

Code Dictionary::keys(std::uint32_t max, std::string& packed, std::uint32_t& count) {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  packed.clear();
  count = 0;
  const std::uint32_t limit = max == 0 ? ~0U : max;
  for (Shard& shard : now->shards()) {
    for (std::uint32_t bucket = 0; bucket < shard.buckets() && count < limit; ++bucket) {
      std::uint32_t here = 0;
      const Code code = keys_of(shard, bucket, now->flush_epoch(), limit - count, packed, here);
      if (code != Code::ok) return code;
      count += here;
    }
  }
  return Code::ok;
}

std::uint64_t Dictionary::capacity() noexcept {
  Segment* now = segment();
  return now != nullptr ? now->geometry().size : 0;
}

std::uint64_t Dictionary::free_space() noexcept {
  Segment* now = segment();
  if (now == nullptr) return 0;
  std::uint64_t granules = 0;
  for (Shard& shard : now->shards())
    granules += std::min(shard.header().free_granules.load(kRelaxed), shard.granules());
  return granules * kGranule;
}

std::uint64_t Dictionary::room_for_one() noexcept {
  Segment* now = segment();
  return now != nullptr ? std::uint64_t{now->geometry().block_max()} * kGranule - sizeof(Entry) - 16 : 0;
}

}  // namespace holdfast
