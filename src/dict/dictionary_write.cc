// The changes of a dictionary: changes of one entry, changes of all entries, and reclaiming memory from dead processes
// when memory is short.
#include <bit>

#include "base/failpoint.h"
#include "dict/clock_sweep.h"
#include "dict/dead_owners.h"
#include "dict/dictionary.h"
#include "dict/expiry.h"
#include "dict/overwrite.h"
#include "dict/repair.h"
#include "platform/platform.h"
#include "sync/mailbox.h"

namespace holdfast {

namespace {

/// The time to wait for the mutex of a shard in order to reclaim the shard's memory. An attempt to take a lock waits at
/// least as long for the mutex.
constexpr std::uint64_t kReclaimTimeoutNs = 50'000'000;

// Checks how a run could be made. Repeats the scan if other processes have changed the shard in the meantime. No
// benchmark covers kLooks, because none has a dictionary full of held locks.
Prospect foresee(World& world, Segment& segment, Shard& shard, Evict evict, std::uint32_t count) noexcept {
  constexpr int kLooks = 3;
  Prospect prospect;
  for (int looks = 0; looks < kLooks; ++looks) {
    Arena arena(shard);
    Reclaimer reclaimer(world, segment, shard, arena);
    prospect = ClockSweep(reclaimer, evict, 0).foresee(count);
    if (prospect.way != Prospect::Way::unknown) break;
  }
  return prospect;
}

bool same_bytes(const Word64* words, const char* bytes, std::size_t count) noexcept {
  for (; count >= 8; count -= 8, bytes += 8, ++words)
    if (words->load(kRelaxed) != load_word(bytes)) return false;
  return count == 0 || words->load(kRelaxed) == load_tail(bytes, count);
}

/// Compares numbers as numbers: 0 equals -0, and NaN does not equal anything, not even itself.
bool same_value(const EntryView& view, const ValueIn& value) noexcept {
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

Evict eviction_for(StoreOp op) noexcept {
  return op == StoreOp::safe_set || op == StoreOp::safe_add ? Evict::no : Evict::yes;
}

/// Returns the size of the value's entry in granules, to check whether the entry can ever fit. Returns 0 if it fits in
/// any dictionary.
std::uint64_t granules_to_check(std::string_view key, std::uint64_t value_size) noexcept {
  // This limit applies to the key and to the value. Benchmarks: "set, one string of 100 bytes" and "set, one string of
  // 1 KB".
  constexpr std::uint64_t kFitsAnywhere = 512;
  if ((key.size() | value_size) < kFitsAnywhere) return 0;
  return value_size > kValueMax ? kNeverFits : granules_for(key.size(), value_size);
}

Code finish(Code code, const Transaction& change, Effect& effect) noexcept {
  effect.evicted |= change.evicted();
  return code;
}

}  // namespace

// Does the same as transact() with the operation that `make()` returns, but first tries `shortcut(Segment&, const
// Shard&, const Key&)` under the mutex. If the shortcut returns true, nothing else has to be done. If the keys have
// versions, there is no shortcut. Everything after the shortcut is in a separate function, which works on copies, so
// that the short path needs few registers. The copies are passed by reference, because making a second copy would have
// to wait for the narrower stores of the first one.
template <class Shortcut, class Make>
inline Code Dictionary::transact_unless(Shortcut&& shortcut, std::string_view bytes, Make&& make,
                                        std::uint64_t granules) noexcept {
  const auto body = [&](Segment& segment, Shard& shard, const Key& key, ShardGuard& guard) HOLDFAST_INLINE {
    if (!shard.stripes() && shortcut(segment, shard, key)) return Code::ok;
    guard.pass_on();
    const Key its = key.copy();
    auto operation = make();
    return run_cold(segment, shard, its, operation, kMutexPatienceNs);
  };
  return with_shard_of(bytes, kMutexPatienceNs, granules, Shard::Unopened::open, body);
}

template <class Operation>
[[gnu::noinline]] Code Dictionary::run_cold(Segment& segment, Shard& shard, const Key& key, Operation& operation,
                                            std::uint64_t timeout_ns) noexcept {
  return run(segment, shard, key, operation, timeout_ns);
}

Code Dictionary::store(StoreOp op, std::string_view key, const ValueIn& value, double exptime,
                       Effect& effect) noexcept {
  const std::uint64_t end = end_of_value(exptime);
  const auto overwrite = [op, end, &value](const Segment& segment, const Shard& shard, const Key& its) HOLDFAST_INLINE {
    if (op != StoreOp::set && op != StoreOp::safe_set) return false;
    const std::uint32_t flush = segment.flush_epoch();
    return is_word(value.type) ? overwrite_word(shard, its, value, expiry_word(end, flush))
                               : overwrite_bytes(shard, its.copy(), value, end, flush);
  };
  const auto make = [op, end, &value, &effect]() HOLDFAST_INLINE {
    return [op, end, &value, &effect](Transaction& change) {
      if (op != StoreOp::set && op != StoreOp::safe_set) {
        const bool exists = change.exists();
        if (op == StoreOp::replace && !exists) return Code::not_found;
        if (op != StoreOp::replace && exists) return Code::exists;
      }
      return finish(change.write(value, end, eviction_for(op)), change, effect);
    };
  };
  return transact_unless(overwrite, key, make, granules_to_check(key, value.size));
}

Code Dictionary::remove(std::string_view key) noexcept {
  const auto operation = [](Transaction& change) {
    const bool existed = change.exists();
    const Code code = change.found() ? change.cut() : Code::ok;
    return existed || code != Code::ok ? code : Code::not_found;
  };
  return transact(key, operation, kMutexPatienceNs, 0, Shard::Unopened::leave);
}

Code Dictionary::compare_and_swap(std::string_view key, const ValueIn* expected, const ValueIn* desired, double exptime,
                                  Effect& effect) noexcept {
  const std::uint64_t end = end_of_value(exptime);
  const auto operation = [&](Transaction& change) {
    const bool exists = change.exists();
    if (expected == nullptr && exists) return Code::exists;
    if (expected != nullptr && !exists) return Code::not_found;
    if (expected != nullptr && !same_value(change.view(), *expected)) return Code::differs;
    if (desired != nullptr) return finish(change.write(*desired, end, Evict::yes), change, effect);
    return exists ? change.cut() : Code::ok;
  };
  const std::uint64_t granules = desired != nullptr ? granules_to_check(key, desired->size) : 0;
  return transact(key, operation, kMutexPatienceNs, granules);
}

Code Dictionary::store_unless_changed(std::string_view key, Version& version, const ValueIn* desired, double exptime,
                                      Effect& effect) noexcept {
  const std::uint64_t end = end_of_value(exptime);
  const auto operation = [&](Transaction& change) {
    Segment& segment = change.segment();
    if (!segment.has_versions()) return Code::unsupported;
    // Load the version before the entry is filled, so that, if the dictionary is flushed in the meantime, the returned
    // version belongs to the flushed value.
    const Stripe& stripe = change.shard().stripes().of(change.key().short_hash());
    const std::uint64_t before = segment.version_of(stripe);
    if (before != version.number) return Code::differs;
    const std::uint64_t word = stripe.version.load(kRelaxed);
    Code code = Code::ok;
    if (desired != nullptr)
      code = finish(change.write(*desired, end, Evict::yes), change, effect);
    else if (change.exists())
      code = change.cut();
    if (code == Code::ok)
      version = {(before + stripe.version.load(kRelaxed) - word) & kVersionMask,
                 segment.stripe_number(change.key().hash), desired != nullptr ? end : kExpiryNever};
    return code;
  };
  const std::uint64_t granules = desired != nullptr ? granules_to_check(key, desired->size) : 0;
  return transact(key, operation, kMutexPatienceNs, granules);
}

Code Dictionary::increment(std::string_view key, double by, const Initial* initial, double& sum,
                           Effect& effect) noexcept {
  const std::uint64_t end = initial != nullptr ? end_of_value(initial->exptime) : kExpiryNever;
  const auto add = [by, &sum](const Segment& segment, const Shard& shard, const Key& its)
                       HOLDFAST_INLINE { return increment_word(shard, its, by, segment.flush_epoch(), sum); };
  const auto make = [by, initial, end, &sum, &effect]() HOLDFAST_INLINE {
    return [by, initial, end, &sum, &effect](Transaction& change) {
      if (change.is(EntryType::number) &&
          is_live_value(change.view().entry->expiry.load(kRelaxed), change.flush_epoch())) {
        Word64& word = *change.view().value();
        sum = std::bit_cast<double>(word.load(kRelaxed)) + by;
        change.commit_value(word, std::bit_cast<std::uint64_t>(sum));
        change.touch();
        return Code::ok;
      }
      if (change.exists()) return Code::not_a_number;
      if (initial == nullptr) return Code::not_found;
      sum = initial->value + by;
      const ValueIn value{EntryType::number, 0, std::bit_cast<std::uint64_t>(sum), nullptr, sizeof(double)};
      return finish(change.put(value, end, Evict::yes), change, effect);
    };
  };
  return transact_unless(add, key, make, granules_to_check(key, sizeof(double)));
}

Code Dictionary::expire(std::string_view key, double exptime) noexcept {
  const std::uint64_t value_end = end_of_value(exptime);
  bool waiters_misled = false;
  const auto operation = [&](Transaction& change) {
    if (!change.exists()) return Code::not_found;
    if (!change.is_settled()) return Code::timeout;
    const bool holdable = is_holdable(change.view().type);
    const std::uint64_t end = holdable ? end_of_lease(exptime) : value_end;
    Word64& expiry = change.view().entry->expiry;
    waiters_misled = holdable && change.view().is_waited_for() && ends_earlier(end, expiry_ms(expiry.load(kRelaxed)));
    change.commit_value(expiry, expiry_word(end, change.flush_epoch()));
    note_end(change.shard(), end);
    return Code::ok;
  };
  const Code code = transact(key, operation, kMutexPatienceNs, 0, Shard::Unopened::leave);
  if (waiters_misled) post_to_everyone(world_);
  return code;
}

// Flushes all shards by one atomic operation, because every entry of another epoch is flushed. The epoch has 20 bits.
// Before it can wrap to an epoch that an entry still has, a sweep removes the dead entries. If this process is killed
// during the sweep, the next flush starts it again.
Code Dictionary::flush_all() noexcept {
  return in_segment([&](Segment& segment) {
    Word32& epoch = segment.header().flush_epoch;
    std::uint32_t before = epoch.load(kRelaxed);
    if (((before + 1) & (kFlushMask >> 1)) == 0) {
      std::uint32_t count = 0;
      const Code code = flush_expired_in(segment, ~0U, count);
      if (code != Code::ok) return code;
    }
    HOLDFAST_FAILPOINT("flush.looked");
    // If another process has advanced the epoch in the meantime, it has flushed everything that existed when this call
    // began. Do not advance the epoch again, because that could skip the sweep.
    epoch.compare_exchange_strong(before, before + 1, std::memory_order_acq_rel);
    post_to_everyone(world_);  // the flush has ended the grants and values that they wait for
    return Code::ok;
  });
}

Code Dictionary::flush_expired(std::uint32_t max, std::uint32_t& count) noexcept {
  count = 0;
  return in_segment([&](Segment& segment) { return flush_expired_in(segment, max, count); });
}

Code Dictionary::flush_expired_in(Segment& segment, std::uint32_t max, std::uint32_t& count) noexcept {
  for (Shard& shard : segment.shards()) {
    if (count == max) break;
    if (!shard.open_if_used()) continue;
    shard.note_opened();
    shard.catch_up();
    const DeadOwners dead(shard, world_, segment.flush_epoch());
    const ShardGuard guard(shard);
    if (!guard.held()) return guard.code();
    // Repair before the sweep, because a sweep of a damaged shard could free something twice. An audit that finds a
    // broken chain does not see all keys, so audit again after the repair.
    for (int looks = 0; looks < 2 && !audit(shard, segment.seed()); ++looks) repair(shard);
    Arena arena(shard);
    count += Reclaimer(world_, segment, shard, arena).sweep(max - count, &dead).expired;
    if (arena.damaged()) repair(shard);
  }
  return Code::ok;
}

// Runs after an operation that met an incomplete grant. Usually, the grant's owner was preempted and has now completed
// the grant, or has died. Returns false if the owner is stopped and the timeout is over. No benchmark covers kSleepNs.
bool Dictionary::conclude(UnsettledGrant& unsettled, std::uint64_t timeout_ns) noexcept {
  constexpr std::uint64_t kSleepNs = 200'000;
  const std::uint64_t now_ns = platform::monotonic_ns();
  if (unsettled.end_ns == 0) unsettled.end_ns = now_ns + timeout_ns;
  const std::uint32_t owner = unsettled.grant.owner();
  if (world_.judge_owner(owner) == Liveness::dead) {
    unsettled.abandoned = unsettled.grant;
    return true;
  }
  if (now_ns >= unsettled.end_ns) {
    shmtx_internal::critical_section.blocker = owner;
    return false;
  }
  HOLDFAST_FAILPOINT("settle.alive");
  platform::sleep_until(now_ns + kSleepNs);
  return true;
}

// Runs after an attempt, without the mutex. Returns the result of the call, or nothing if the operation must run again.
std::optional<Code> Dictionary::resolve(Segment& segment, Shard& shard, Code result, Blockers& blockers,
                                        std::uint64_t timeout_ns) noexcept {
  bool again = false;
  if (blockers.unsettled.grant.bits != LockWord::kNone)
    again = conclude(blockers.unsettled, timeout_ns);
  else if (blockers.shortage.can_grow())
    again = grow(shard, blockers.shortage.granules(), timeout_ns, result);
  else
    return reclaim(segment, shard, blockers, result);
  return again ? std::nullopt : std::optional(result);
}

// Runs after an operation that found no run of `granules` in an arena that can grow. Returns whether the operation must
// run again. If memory cannot be reserved, the operation must use the arena as it is.
bool Dictionary::grow(Shard& shard, std::uint32_t granules, std::uint64_t timeout_ns, Code result) noexcept {
  const std::uint32_t end = shard.reserve_more(granules);
  if (end != 0) {
    const ShardGuard guard(shard, timeout_ns);
    if (guard.held()) shard.add_reserved(end);
  }
  return result == Code::no_memory || result == Code::locked;
}

// Runs after an operation that was short of memory. Returns the result of the call, or nothing if the operation must
// run again.
std::optional<Code> Dictionary::reclaim(Segment& segment, Shard& shard, Blockers& blockers, Code result) noexcept {
  const bool needed = result == Code::no_memory;
  const int looks = blockers.looks++;
  // Always run again after the first search, because other processes may have reclaimed memory since this operation
  // failed. After a later search, run again only if it found memory of dead processes: the processes that took the
  // memory found earlier may have died.
  if (looks == kLooksMax || (looks != 0 && !(needed && blockers.found))) return result;
  const Code looked = reclaim_from_dead(segment, shard, needed, blockers);
  if (!needed) return result;
  if (looked != Code::ok) return looked;
  return std::nullopt;
}

// Reclaims what dead processes hold, and repairs damage, when memory is short while locks or permits are held. Returns
// an error if it does not get the mutex. Sets `found` to true if the operation may succeed now.
//
// A dictionary full of locks of living processes must not be searched with the mutex at each call. So after a search,
// the shard is not searched again for a time that grows with its size: a second for 1 MB. During this pause, an
// operation that would otherwise fail checks, without the mutex, whether a holder has died or a search would succeed.
Code Dictionary::reclaim_from_dead(Segment& segment, Shard& shard, bool needed, Blockers& blockers) noexcept {
  blockers.found = false;
  Arena arena(shard);
  Reclaimer reclaimer(world_, segment, shard, arena);
  const bool rests = reclaimer.asked_lately();
  if (rests && !needed) return Code::ok;
  const DeadOwners dead(shard, world_, segment.flush_epoch());
  if (rests && !dead.any()) return take_prospect(segment, shard, dead.ended(), blockers);
  {
    const ShardGuard guard(shard, kReclaimTimeoutNs);
    if (!guard.held()) return guard.code();
    const bool complete = needed && !rests;
    if (complete && !audit(shard, segment.seed())) repair(shard);
    const Reclaimer::Swept swept = reclaimer.sweep(~0U, &dead);
    if (arena.damaged()) repair(shard);
    // Keep the recorded shortages, because without them each later call would search with the mutex. But the shortages
    // may be over, or their words may have been overwritten, so check again without the mutex.
    blockers.found = complete || arena.damaged() || swept.dead + swept.locks + swept.expired != 0;
    reclaimer.note_asked(swept.dead != 0);  // there may be more dead owners
  }
  HOLDFAST_FAILPOINT("reclaim.done");
  return Code::ok;
}

// Finds out, without the mutex, how to make the run that was refused. `ended` is the number of granules of locks and
// permits that are free now. Takes the mutex only if a search is likely to succeed. If it is enough to remove a few
// blocks, touches only these blocks.
Code Dictionary::take_prospect(Segment& segment, Shard& shard, std::uint32_t ended, Blockers& blockers) noexcept {
  // A full sweep is worthwhile if it frees at least this fraction of the arena. No benchmark has so many locks;
  // reclaimer_test.cc covers this constant.
  constexpr std::uint32_t kMany = 16;
  const Shortage shortage = blockers.shortage;
  const bool many = ended > shard.granules() / kMany;
  bool by_evicting = false;
  Prospect prospect;
  if (!many && shortage.is_full()) {
    prospect = foresee(world_, segment, shard, Evict::no, shortage.granules());
    by_evicting = prospect.way != Prospect::Way::removal && shortage.may_evict() && prospect.evictable;
    if (by_evicting) prospect = foresee(world_, segment, shard, Evict::yes, shortage.granules());
  }
  if (!many && prospect.way == Prospect::Way::none) return Code::ok;
  Arena arena(shard);
  Reclaimer reclaimer(world_, segment, shard, arena);
  if (!many && prospect.way != Prospect::Way::removal && reclaimer.failed_lately()) return Code::ok;
  const ShardGuard guard(shard, kReclaimTimeoutNs);
  if (!guard.held()) return guard.code();
  if (many)
    blockers.found = reclaimer.sweep().locks != 0;
  else if (!by_evicting)
    blockers.found = reclaimer.clear_at(shortage.granules(), prospect);
  if (by_evicting) {
    arena.forget_shortage();
    blockers.found = true;  // the operation itself evicts what is necessary
  } else if (blockers.found && !shortage.may_evict()) {
    shard.header().no_run.store(0, kRelaxed);  // more free memory may be contiguous now
  }
  if (arena.damaged()) {
    repair(shard);
    blockers.found = true;
  }
  return Code::ok;
}

}  // namespace holdfast
