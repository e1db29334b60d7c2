// The reads of a dictionary. They do not take a mutex, with two exceptions: after many torn reads, and if a holder of
// permits is dead but other holders may be alive.
#include <algorithm>

#include "base/failpoint.h"
#include "base/token_set.h"
#include "dict/dictionary.h"
#include "dict/expiry.h"
#include "dict/holder_list.h"
#include "dict/packed_keys.h"
#include "dict/shard_read.h"
#include "dict/walk.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// The number of tries before a reader takes the mutex. No benchmark covers these two constants: in benchmarks with
/// several writers, the values are numbers, which are overwritten in place.
constexpr std::size_t kReadTries = 64;
/// Each multiple of this many bytes that is copied counts as another try.
constexpr std::size_t kBytesPerTry = 32768;
/// The time to wait for the mutex in each round. A reader gives up after kReadRounds rounds, but not before
/// kReadGivesUpNs.
constexpr std::uint64_t kReadTimeoutNs = 10'000'000;
constexpr int kReadRounds = 16;
constexpr std::uint64_t kReadGivesUpNs = 400'000'000;
// The maximum number of buckets that one call to scan() reads: a constant, plus a number for each requested key. The
// benchmark is "`holdfast locks`" (bench-look).
constexpr std::uint64_t kScanBuckets = 1024;
constexpr std::uint64_t kScanBucketsPerKey = 16;

// Returns the remaining time in seconds, rounded to whole milliseconds. A value that was just stored has exactly its
// exptime left. For a lease, the result is rounded down. The result is never 0, which would mean "never ends". It is
// negative if and only if `stale` is set, even if the end has passed since the read.
double seconds_left(std::uint64_t end_ms, bool held, bool stale) noexcept {
  const std::uint64_t now_ms = held ? platform::monotonic_ns() / 1'000'000 + 1 : value_ms();
  const auto left = static_cast<std::int64_t>(end_ms - now_ms);
  return static_cast<double>(stale ? std::min<std::int64_t>(left, -1) : std::max<std::int64_t>(left, 1)) / 1e3;
}

std::uint32_t free_of(Shard& shard) noexcept {
  return shard.open_if_used() ? shard.free_granules() : shard.all_granules() - 1;
}

constexpr bool is_whole(Shard::Read result) noexcept {
  return result != Shard::Read::torn && result != Shard::Read::damaged;
}

constexpr bool is_there(Shard::Read result) noexcept {
  return result == Shard::Read::found || result == Shard::Read::no_room;
}

// Counts the locks and permits that are free. Takes no mutex, so the result is approximate while other processes change
// the shard.
std::uint32_t count_free(const Shard& shard) noexcept {
  std::uint32_t count = 0;
  if (shard.header().perhaps_free.load(kRelaxed) == 0) return 0;
  walk_entries(shard, [&count](const EntryView& view) -> std::uint32_t {
    if (is_holdable(view.type) && view.is_free()) ++count;
    return 0;
  });
  return count;
}

/// Limits the work of a reader that is disturbed repeatedly. Reads the clock only after kReadRounds rounds.
class ReadLimit {
 public:
  /// Returns whether the limit is reached. Call this before each round.
  bool over() noexcept {
    if (rounds_++ < kReadRounds) return false;
    const std::uint64_t now = platform::monotonic_ns();
    if (end_ns_ == 0) end_ns_ = now + kReadGivesUpNs - kReadRounds * kReadTimeoutNs;
    return now >= end_ns_;
  }

 private:
  int rounds_ = 0;
  std::uint64_t end_ns_ = 0;
};

}  // namespace

Code Dictionary::read_busy(Shard& shard, const Key& key, ValueOut& out, Shard::Read& result) noexcept {
  const ShardGuard guard(shard, kReadTimeoutNs);
  if (!guard.held()) return guard.code();
  result = shard.read(key, out);
  if (is_whole(result)) return Code::ok;
  repair(shard);  // there is no active writer, so the chain is damaged
  result = shard.read(key, out);
  return Code::ok;
}

[[gnu::always_inline]] inline Shard::Read Dictionary::read(Segment& segment, const Key& key, ValueOut& out) noexcept {
  Shard& shard = segment.shard_of(key.hash);
  if (!shard.open_if_used()) [[unlikely]]
    return Shard::Read::missing;
  const Shard::Read result = shard.read_inline(key, out);
  if (is_there(result)) [[likely]]
    return result;
  if (is_whole(result)) return result;
  return read_again(shard, key.copy(), out, result);
}

// Reads again after a torn read. If reads are torn repeatedly, writers are active, so the mutex will become free. If
// the owner of the mutex is stopped instead, no process writes, and the next read is consistent. Apparent damage may be
// a block in memory that was added to the arena during the read.
[[gnu::cold]] Shard::Read Dictionary::read_again(Shard& shard, Key key, ValueOut& out, Shard::Read result) noexcept {
  if (result == Shard::Read::damaged && shard.catch_up()) result = Shard::Read::torn;
  for (ReadLimit limit; !limit.over();) {
    for (std::size_t cost = 0; result == Shard::Read::torn && cost < kReadTries; cost += 1 + out.size / kBytesPerTry) {
      platform::cpu_relax();
      out.size = 0;
      result = shard.read(key, out);
    }
    if (is_whole(result) || read_busy(shard, key, out, result) == Code::ok) return result;
    if (result == Shard::Read::damaged && World::observes()) return result;
    result = Shard::Read::torn;
  }
  return result;
}

// Returns whether any holder is alive. Takes the mutex only if the holder that was read is dead and there are other
// holders. If there are many holders, assumes that one of them is alive.
[[gnu::noinline]] bool Dictionary::is_held(Segment& segment, Key key, const ValueOut& out) noexcept {
  if (!world_.is_dead(out.bits)) return true;
  if (out.type == EntryType::lock || !out.shared) return false;
  TokenSet owners;
  bool many = false;
  const Code code = transact_in(
      segment, key.bytes(),
      [&](Transaction& change) {
        if (!change.is(EntryType::permits)) return Code::not_found;
        const HolderList holders = holders_of(change.shard(), change.arena(), change.view());
        std::size_t seen = 0;
        HolderList::Cursor at(holders);
        for (; at.found() && seen < TokenSet::kMax; at.advance(), ++seen)
          if (is_live(at.expiry().load(kRelaxed), change.flush_epoch())) owners.add(at.fields().owner.load(kRelaxed));
        many = at.found();
        return change.arena().damaged() ? Code::corrupt : Code::ok;
      },
      kReadTimeoutNs);
  if (code != Code::ok) return code != Code::not_found;
  return many || std::any_of(owners.begin(), owners.end(), [this](Token owner) { return !world_.is_dead(owner); });
}

// Inlined, like read(), find_any() and get_any(), because a call to any of these functions would take 7 % of the time
// of a get.
[[gnu::always_inline]] inline Code Dictionary::find_once(Segment& segment, const Key& key, ValueOut& out,
                                                         bool& stale) noexcept {
  stale = false;
  const Shard::Read result = read(segment, key, out);
  if (!is_there(result)) [[unlikely]] {
    if (result == Shard::Read::missing) return Code::not_found;
    return result == Shard::Read::torn ? Code::timeout : Code::corrupt;
  }
  const std::uint32_t flush = segment.flush_epoch();
  if (is_holdable(out.type)) [[unlikely]] {
    if (out.type == EntryType::lock && out.incomplete) {
      out.bits = world_.token_of(static_cast<std::uint32_t>(out.bits));
      out.expiry = expiry_word(kExpiryNever, flush);
    }
    stale = !is_live(out.expiry, flush);
    if (stale || !is_held(segment, key.copy(), out)) return Code::not_found;
  } else {
    stale = !is_live_value(out.expiry, flush);
  }
  return result == Shard::Read::found ? Code::ok : Code::buffer;
}

// Reads an entry again that seems to have ended. Another process may change the end of an entry after this process has
// loaded the end and before it reads the clock. So an entry has ended only if the next read finds the same end. If each
// read finds a different end that has passed, the last try decides.
[[gnu::cold]] Code Dictionary::find_again(Segment& segment, Key key, ValueOut& out, bool& stale) noexcept {
  for (std::size_t tries = 1;; ++tries) {
    const std::uint64_t end = out.expiry;
    const Code code = find_once(segment, key, out, stale);
    if (!stale || out.expiry == end || tries == kReadTries) return code;
  }
}

// Finds the key, live or not. `stale` says whether its entry has ended.
[[gnu::always_inline]] inline Code Dictionary::find_any(Segment& segment, std::string_view bytes, ValueOut& out,
                                                        bool& stale) noexcept {
  const Key key(bytes, segment.seed());
  bool ended = false;
  const Code code = find_once(segment, key, out, ended);
  stale = false;
  if (!ended) [[likely]]
    return code;
  bool still = false;
  const Code again = find_again(segment, key.copy(), out, still);
  stale = still;
  return again;
}

// Returns the remainder of a division of a 16-bit number, such as a slot, by kReadCounts - 1. This takes half the steps
// of a 32-bit division. The benchmark is "get, one number".
constexpr std::uint32_t place_of_reads(std::uint64_t slot) noexcept {
  constexpr std::uint64_t kPlaces = kReadCounts - 1;
  constexpr int kShift = 22;
  return static_cast<std::uint32_t>(slot - (slot * ((1 << kShift) / kPlaces + 1) >> kShift) * kPlaces);
}
static_assert([] {
  for (std::uint32_t slot = 0; slot <= 0xFFFF; ++slot)
    if (place_of_reads(slot) != slot % (kReadCounts - 1)) return false;
  return true;
}());

// Counts a read. Reads need no identity: processes without an identity share the last count, and use atomic operations.
// All others use a plain load and store. Two processes with an identity share a count only if more than kReadCounts - 1
// processes are alive. Threads of one process may lose a few of each other's reads.
[[gnu::always_inline]] inline void Dictionary::count_read(Segment& segment, bool hit) noexcept {
  const Token self = world_.known_token();
  const auto count_in = [&](std::uint32_t place) -> Word64& {
    ReadCounts& counts = segment.header().reads[place];
    return hit ? counts.hits : counts.misses;
  };
  if (self == kNobody) [[unlikely]] {
    count_in(kReadCounts - 1).fetch_add(1, kRelaxed);
    return;
  }
  Word64& count = count_in(place_of_reads(slot_of(self)));
  count.store(count.load(kRelaxed) + 1, kRelaxed);
}

[[gnu::always_inline]] inline Code Dictionary::get_any(const EpochGuard& inside, std::string_view key, ValueOut& out,
                                                       bool& stale, bool stale_too) noexcept {
  Segment* const now = segment(inside);
  if (now == nullptr) [[unlikely]]
    return Code::removed;
  Code code = find_any(*now, key, out, stale);
  if (code == Code::ok || code == Code::buffer) {
    if (stale && !stale_too)
      code = Code::not_found;
    else if (out.type == EntryType::list)
      code = Code::is_a_list;
  }
  if (code != Code::buffer) count_read(*now, code != Code::not_found);  // after `buffer`, the caller calls again
  return code;
}

Code Dictionary::get(std::string_view key, ValueOut& out) noexcept {
  EpochGuard inside;
  bool stale = false;
  return get_any(inside, key, out, stale, false);
}

Code Dictionary::get_stale(std::string_view key, ValueOut& out, bool& stale) noexcept {
  EpochGuard inside;
  return get_any(inside, key, out, stale, true);
}

Code Dictionary::ttl(std::string_view key, double& seconds) noexcept {
  return in_segment([&](Segment& segment) {
    ValueOut out{};
    bool stale = false;
    const Code code = find_any(segment, key, out, stale);
    if (code != Code::ok && code != Code::buffer) return code;
    if (is_flushed(out.expiry, segment.flush_epoch())) return Code::not_found;
    const std::uint64_t end = expiry_ms(out.expiry);
    seconds = end == kExpiryNever ? 0.0 : seconds_left(end, is_holdable(out.type), stale);
    return Code::ok;
  });
}

Code Dictionary::list_length(std::string_view key, std::uint32_t& length) noexcept {
  length = 0;
  return in_segment([&](Segment& segment) {
    ValueOut out{};
    bool stale = false;
    const Code code = find_any(segment, key, out, stale);
    if (code == Code::not_found || stale) return Code::ok;
    if (code != Code::ok && code != Code::buffer) return code;
    if (out.type != EntryType::list) return Code::not_a_list;
    length = ListEnds::length_of(out.bits);
    return Code::ok;
  });
}

[[gnu::cold]] Code Dictionary::keys_of(Shard& shard, std::uint32_t bucket, const KeyFilter& filter,
                                       PackedKeys& packed) noexcept {
  for (ReadLimit limit; !limit.over();) {
    Shard::Copy copy = Shard::Copy::torn;
    for (std::size_t i = 0; i < kReadTries && copy == Shard::Copy::torn; ++i)
      copy = shard.copy_keys(bucket, filter, packed);
    if (copy == Shard::Copy::whole) return Code::ok;
    if (copy == Shard::Copy::damaged && shard.catch_up()) continue;
    if (copy == Shard::Copy::damaged && World::observes()) return Code::corrupt;
    const ShardGuard guard(shard, kReadTimeoutNs);
    if (!guard.held()) continue;
    if (copy == Shard::Copy::damaged) repair(shard);
    if (shard.copy_keys(bucket, filter, packed) == Shard::Copy::whole) return Code::ok;
    repair(shard);  // there is no active writer, so the chain is damaged
  }
  return Code::timeout;
}

// Adds the keys of the buckets from `from` to `end` until there are enough. Sets `from` to the next bucket.
Code Dictionary::keys_between(Shard& shard, std::uint32_t& from, std::uint32_t end, std::uint32_t enough,
                              const KeyFilter& filter, PackedKeys& packed) noexcept {
  UsedBuckets used(shard, from, end);
  for (std::uint32_t bucket = 0; packed.count() < enough && used.next(bucket);) {
    if (shard.copy_keys(bucket, filter, packed) == Shard::Copy::whole) [[likely]]
      continue;
    if (const Code code = keys_of(shard, bucket, filter, packed); code != Code::ok) return code;
  }
  from = used.position();
  return Code::ok;
}

Code Dictionary::keys(std::uint32_t max, PackedKeys& packed) noexcept {
  return in_segment([&](Segment& segment) {
    const std::uint32_t limit = max == 0 ? ~0U : max;
    for (Shard& shard : segment.shards()) {
      if (!shard.open_if_used()) continue;
      std::uint32_t from = 0;
      const Code code =
          keys_between(shard, from, shard.buckets(), limit, {segment.flush_epoch(), limit, {}, Listed::live}, packed);
      if (code != Code::ok || packed.count() >= limit) return code;
    }
    return Code::ok;
  });
}

// An entry never leaves its bucket, so a walk over the buckets meets every entry that exists throughout the walk. The
// cursor is the number of the next bucket, counted over all shards.
Code Dictionary::scan(std::uint64_t& cursor, std::uint32_t count, std::string_view prefix, Listed listed,
                      PackedKeys& packed) noexcept {
  return in_segment([&](Segment& segment) {
    const std::uint64_t buckets = segment.shards().front().buckets();
    const std::uint64_t end = buckets * segment.shards().size();
    std::uint64_t last = std::min(end, cursor + kScanBuckets + kScanBucketsPerKey * count);
    std::uint64_t at = cursor;
    while (at < last && packed.count() < count) {
      Shard& shard = segment.shards()[at / buckets];
      const std::uint64_t first = at - at % buckets;
      if (!shard.open_if_used()) {
        last = std::min(end, last + first + buckets - at);  // the empty buckets of an unused shard do not count
        at = first + buckets;
        continue;
      }
      auto from = static_cast<std::uint32_t>(at - first);
      const auto to = static_cast<std::uint32_t>(std::min(buckets, last - first));
      const Code code = keys_between(shard, from, to, count, {segment.flush_epoch(), ~0U, prefix, listed}, packed);
      if (code != Code::ok) return code;
      at = first + from;
    }
    cursor = at < end ? at : 0;
    return Code::ok;
  });
}

Code Dictionary::stats(holdfast_stats& stats) noexcept {
  stats = {};
  return in_segment([&](Segment& segment) {
    for (Shard& shard : segment.shards()) {
      const std::uint64_t free = free_of(shard);
      stats.bytes_free += free * kGranule;
      stats.bytes_used += (shard.all_granules() - free) * kGranule;
      if (!shard.open_if_used()) continue;
      shard.catch_up();
      const ShardHeader& header = shard.header();
      const std::uint32_t entries = header.entries.load(kRelaxed);
      stats.entries +=
          entries - std::min(entries, count_free(shard));  // the two numbers were read at different moments
      stats.evictions += header.evictions.load(kRelaxed);
      stats.expirations += header.expirations.load(kRelaxed);
      stats.repairs += header.repairs.load(kRelaxed);
      stats.mutex_waits += header.mutex.waits.load(kRelaxed);
      stats.lock_waits += header.lock_waits.load(kRelaxed);
      stats.lock_wakes += header.lock_wakes.load(kRelaxed);
      stats.lock_reserved_ms += header.lock_reserved_ms.load(kRelaxed);
    }
    stats.lives_unknown = world_.unjudged();
    stats.words_mended = world_.fencing().corruptions_repaired();
    for (const ReadCounts& reads : segment.header().reads) {
      stats.hits += reads.hits.load(kRelaxed);
      stats.misses += reads.misses.load(kRelaxed);
    }
    return Code::ok;
  });
}

Code Dictionary::histogram(HeldKind kind, TimeKind time, Histogram& histogram) noexcept {
  return in_segment([&](Segment& segment) {
    segment.statistics().read(kind, time, histogram);
    return Code::ok;
  });
}

Code Dictionary::contention(std::span<Contended> worst, std::size_t& count) noexcept {
  return in_segment([&](Segment& segment) {
    count = segment.statistics().read(worst);
    return Code::ok;
  });
}

std::uint64_t Dictionary::capacity() noexcept {
  return in_segment([](Segment& segment) { return segment.geometry().size; }, std::uint64_t{0});
}

std::uint64_t Dictionary::free_space() noexcept {
  const auto free_in = [](Segment& segment) {
    std::uint64_t granules = 0;
    for (Shard& shard : segment.shards()) granules += free_of(shard);
    return granules * kGranule;
  };
  return in_segment(free_in, std::uint64_t{0});
}

Code Dictionary::version(std::string_view key, Version& version) noexcept {
  const auto load = [&](Segment& segment) {
    if (!segment.has_versions()) return Code::unsupported;
    const Key its(key, segment.seed());
    Shard& shard = segment.shard_of(its.hash);
    // The stripe of an unused shard is not touched, because it has no memory.
    const Stripe& stripe = shard.open_if_used() ? shard.stripes().of(its.short_hash()) : kUnusedStripe;
    version.number = segment.settled_version_of(shard, stripe);
    version.stripe = segment.stripe_number(its.hash);
    version.end_ms = kExpiryNever;
    return Code::ok;
  };
  return in_segment(load, Code::removed);
}

Code Dictionary::get_changed(std::string_view key, Version& version, ValueOut& out) noexcept {
  EpochGuard inside;
  Version now{.deaths = version.deaths};
  if (const Code code = this->version(key, now); code != Code::ok) return code;
  if (now.number == version.number && is_settled_version(now.number)) return Code::unchanged;
  HOLDFAST_FAILPOINT("get_changed.version");
  bool stale = false;
  const Code code = get_any(inside, key, out, stale, false);
  if (code == Code::ok) now.end_ms = expiry_ms(out.expiry);
  if (code == Code::ok || code == Code::not_found) version = now;
  return code;
}

bool Dictionary::is_current(const Version& version) noexcept {
  const auto compare = [&](Segment& segment) {
    if (!segment.has_versions()) return false;
    const std::uint32_t index = segment.shard_of_stripe(version.stripe);
    if (index >= segment.geometry().shards) return false;
    Shard& shard = segment.shard_at(index);
    const Stripe& stripe = shard.open_if_used() ? segment.stripe_at(version.stripe) : kUnusedStripe;
    return is_settled_version(version.number) && segment.version_of(stripe) == version.number &&
           (version.end_ms == kExpiryNever || !value_passed(version.end_ms));
  };
  return in_segment(compare, false);
}

std::uint64_t Dictionary::value_max() noexcept {
  return in_segment([](Segment& segment) { return segment.geometry().value_max(); }, std::uint64_t{0});
}

std::uint64_t Dictionary::value_max_if_asked_for() noexcept {
  const auto most = [](Segment& segment) {
    return Geometry::for_values(segment.geometry().size, ~std::uint64_t{0}).value_max();
  };
  return in_segment(most, std::uint64_t{0});
}

std::uint64_t Dictionary::room_for_one() noexcept {
  const auto room = [](Segment& segment) {
    return std::uint64_t{segment.geometry().block_max()} * kGranule - sizeof(Entry) - 16;
  };
  return in_segment(room, std::uint64_t{0});
}

}  // namespace holdfast
