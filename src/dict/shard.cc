#include "dict/shard.h"

#include <algorithm>

#include "base/failpoint.h"
#include "dict/arena.h"
#include "dict/expiry.h"
#include "dict/key.h"
#include "dict/repair.h"
#include "dict/reserved.h"
#include "dict/shard_read.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

/// If a value has at least this size, in bytes, it is worthwhile to check whether a copy is consistent although the
/// epoch has changed. No benchmark covers these two constants: in benchmarks with several writers, the values are
/// numbers, which are overwritten in place.
constexpr std::size_t kLargeValue = 2048;
/// A second check takes a fraction of a microsecond, so after a few tries it fits between two changes by other
/// processes.
constexpr int kLookBackTries = 64;
/// The number of epochs that a stamp of 32 bits can distinguish.
constexpr std::uint64_t kStampRange = std::uint64_t{1} << 31;
/// An invalid mark, which makes the first owner of the mutex in each process check the real mark in detail.
constexpr std::uint32_t kUnknownMark = 0xD3C0FFEE;
static_assert(ReservedMark::granules_of(kUnknownMark, ~0U) == 0);

}  // namespace

Shard::Shard(std::byte* base, const Geometry& geometry, const Shmtx& mutex, Word8* opened, Stripes stripes) noexcept
    : header_(reinterpret_cast<ShardHeader*>(base)),
      buckets_(reinterpret_cast<Word32*>(base + sizeof(ShardHeader))),
      free_bits_(reinterpret_cast<Word64*>(base + geometry.free_bits_at)),
      uses_(reinterpret_cast<Word8*>(base + geometry.uses_at)),
      arena_(base + geometry.arena_at),
      bucket_mask_(geometry.buckets - 1),
      granules_(opened != nullptr ? 0 : geometry.granules),
      known_mark_(opened != nullptr ? kUnknownMark : 0),
      all_granules_(geometry.granules),
      stripes_(stripes),
      mutex_(mutex),
      opened_(opened),
      refused_ms_(0) {}

void Shard::fill(std::uint32_t block, const Key& key, const ValueIn& value, std::uint64_t expiry) const noexcept {
  Entry& e = entry(block);
  const std::uint32_t shape = Entry::make_shape(key.length, value.type);
  e.hash.store(key.short_hash(), kRelaxed);
  e.shape.store(shape, kRelaxed);
  e.value_size.store(static_cast<std::uint32_t>(value.size), kRelaxed);
  e.flags.store(value.flags, kRelaxed);
  e.stamp.store(stamp(), kRelaxed);
  e.expiry.store(expiry, kRelaxed);
  Word64* words = store_key(key_words(e), key);
  if (value.type == EntryType::string || value.type == EntryType::table) {
    store_bytes(words, value.data, value.size);
  } else {
    words[0].store(value.bits, kRelaxed);
    for (std::size_t i = 1; i < value.size / 8; ++i) words[i].store(0, kRelaxed);
  }
}

// Copies the holder of a lock. If the lock changes during each try, reports that the owner of the word is about to take
// the lock, which was true at one moment. No benchmark covers kLooks, because none reads such a lock.
Shard::Read Shard::copy_lock(EntryView view, ValueOut& out) noexcept {
  constexpr int kLooks = 16;
  SeenGrant seen{};
  bool whole = false;
  for (int i = 0; i < kLooks && !whole; ++i) whole = read_grant(*view.entry, view.lock(), seen);
  if (seen.word.is_free()) return Read::missing;
  out.incomplete = !whole || !seen.complete;
  out.bits = out.incomplete ? seen.word.owner() : seen.owner;
  out.sequence = seen.sequence;
  out.expiry = seen.expiry;
  return Read::found;
}

bool Shard::inspect_holder(std::uint32_t block, std::uint32_t hash, EntryView& view) const noexcept {
  return inspect(block, view) && view.type == EntryType::holder && view.entry->hash.load(kRelaxed) == hash;
}

// Follows the shortcuts, which skip holders with larger tokens. An inconsistent shortcut ends the search, because
// shortcuts are derived.
std::uint32_t Shard::link_before(const EntryView& permits, std::uint64_t sequence) const noexcept {
  const std::uint32_t hash = permits.entry->hash.load(kRelaxed);
  Entry* passed = nullptr;
  std::uint64_t last = ~std::uint64_t{0};
  for (std::uint32_t level = kShortcuts; level != 0; --level) {
    for (;;) {
      EntryView holder{};
      const Word32& link = passed != nullptr ? shortcut_of(*passed, level) : permits.permits().shortcuts[level - 1];
      if (!inspect_holder(link.load(kAcquire), hash, holder)) break;
      const std::uint64_t number = holder.holder().sequence.load(kRelaxed);
      if (number <= sequence || number >= last) break;
      last = number;
      passed = holder.entry;
    }
  }
  return (passed != nullptr ? passed->next : permits.permits().holders).load(kAcquire);
}

// Copies the first holder. All words of a holder except its expiry and its count are constant while the chain reaches
// it. The end of a holder is not later than the entry's end. If only one of the two is flushed, it is the holder
// (src/lock/permits.h).
Shard::Read Shard::copy_permits(EntryView view, ValueOut& out) const noexcept {
  out.flags = 0;  // the flags of this entry do not belong to the user
  const std::uint32_t first = view.permits().holders.load(kAcquire);
  if (out.wanted != 0) {
    const Read read = copy_holder(view, first, link_before(view, out.wanted), out.wanted, out);
    if (read == Read::found) return read;
  }
  return copy_holder(view, first, first, 0, out);
}

// Copies the first matching holder, starting at `block`, but does not search beyond the token `least`.
Shard::Read Shard::copy_holder(const EntryView& view, std::uint32_t first, std::uint32_t block, std::uint64_t least,
                               ValueOut& out) const noexcept {
  const std::uint32_t hash = view.entry->hash.load(kRelaxed);
  for (std::uint32_t steps = 0; block != 0; ++steps) {
    EntryView holder{};
    if (steps == granules() || !inspect_holder(block, hash, holder)) return Read::damaged;
    const std::uint32_t next = holder.entry->next.load(kAcquire);
    const std::uint64_t sequence = holder.holder().sequence.load(kRelaxed);
    const std::uint64_t expiry = holder.entry->expiry.load(kRelaxed);
    const std::uint64_t end = expiry_ms(expiry);
    if (out.wanted != 0 ? sequence == out.wanted : end == kExpiryNever || !time_passed(end)) {
      out.bits = holder.holder().owner.load(kRelaxed);
      out.sequence = sequence;
      out.shared = block != first || next != 0;
      if (out.wanted != 0) out.expiry = earlier(out.expiry, expiry);
      return Read::found;
    }
    if (sequence != 0 && sequence < least) return Read::missing;
    block = next;
  }
  return Read::missing;
}

// Reports anything inconsistent as damaged. The caller compares the epoch to distinguish damage from a torn read.
Shard::Read Shard::find_and_copy(const Key& key, ValueOut& out, Position& position) const noexcept {
  const Walk walk = walk_to_key(key, kAcquire, position);
  if (walk != Walk::stopped) return walk == Walk::end ? Read::missing : Read::damaged;
  touch(position.block);
  return copy_value(position.view, out);
}

Shard::Read Shard::read(const Key& key, ValueOut& out) const noexcept {
  const std::uint64_t start = epoch();
  Position position{};
  const Read result = find_and_copy(key, out, position);
  return unchanged_since(start) ? result : disturbed(result, position.view, out, key.short_hash(), start);
}

// Returns the result of a read during which the epoch changed.
Shard::Read Shard::disturbed(Read result, EntryView view, const ValueOut& out, std::uint32_t hash,
                             std::uint64_t epoch) const noexcept {
  HOLDFAST_FAILPOINT("read.copied");
  return result == Read::found && out.size >= kLargeValue && still_stands(view, hash, epoch) ? result : Read::torn;
}

Word32* Shard::link_to(const Entry* sought, std::uint32_t hash, std::memory_order order) const noexcept {
  Word32* link = nullptr;
  const auto at = [&](std::uint32_t block) noexcept { return &entry(block) == sought ? kStop : 1; };
  return walk_chain(hash, granules(), order, link, at) == Walk::stopped ? link : nullptr;
}

// Returns whether a copy is consistent although memory elsewhere was released in the meantime. If the entry is still in
// its chain, and was filled before `epoch`, its memory was not released during the copy. (docs/design.md has the
// proof.)
bool Shard::still_stands(EntryView view, std::uint32_t hash, std::uint64_t epoch) const noexcept {
  for (int tries = 0; tries < kLookBackTries; ++tries) {
    // Acquire, as at the beginning of a read. The fence of unchanged_since() precedes this load.
    const std::uint64_t now = header_->reuse_epoch.load(kAcquire);
    if (now - epoch > kStampRange) return false;
    const bool reached = link_to(view.entry, hash, kAcquire) != nullptr;
    const std::uint32_t age = static_cast<std::uint32_t>(epoch) - view.entry->stamp.load(kRelaxed);
    const bool same = view.entry->value_size.load(kRelaxed) == view.value_size;
    if (!unchanged_since(now)) continue;
    // An age of 0 means that the entry was filled in the current epoch, and perhaps after the read began.
    return reached && same && age - 1 < kStampRange;
  }
  return false;
}

bool Shard::counts(const EntryView& view, std::uint32_t flush) noexcept {
  if (!has_key(view.type)) return false;
  const std::uint64_t expiry = view.entry->expiry.load(kRelaxed);
  if (!is_holdable(view.type)) return is_live_value(expiry, flush);
  return !view.is_free() && (view.is_incomplete() || is_live(expiry, flush));
}

bool Shard::is_in_use(const EntryView& view, std::uint32_t flush) noexcept {
  return is_holdable(view.type) && (view.queue().head.load(kRelaxed) != 0 || counts(view, flush));
}

// --- memory that is reserved when it is first used ---

// Reserves the arena up to `end`, and allows this process to touch it.
bool Shard::reserve_to(std::uint32_t end) noexcept {
  const std::uint32_t begin = granules();
  if (end <= begin) return true;
  if (platform::reserve_pages(arena_ + std::size_t{begin} * kGranule, std::size_t{end - begin} * kGranule) != 0)
    return false;
  granules_.raise(end);
  return true;
}

Code Shard::open(Unopened unopened) noexcept {
  // Relaxed is enough: everything else becomes visible with the mutex, or with the links that readers load.
  const bool is_new = opened_->load(kRelaxed) == 0;
  if (is_new && unopened == Unopened::leave) return Code::not_found;
  const std::uint32_t first = first_reserved(all_granules_);
  auto* const begin = reinterpret_cast<std::byte*>(header_);
  const auto bytes = static_cast<std::size_t>(arena_ - begin) + std::size_t{first} * kGranule;
  if (!stripes_.reserve() || platform::reserve_pages(begin, bytes) != 0) return Code::no_memory;
  HOLDFAST_FAILPOINT("shard.reserved");
  if (is_new) opened_->store(1, kRelaxed);
  granules_.raise(first);
  catch_up();
  return Code::ok;
}

void Shard::note_opened() noexcept {
  if (opened_ != nullptr && opened_->load(kRelaxed) == 0) opened_->store(1, kRelaxed);
}

bool Shard::catch_up() noexcept {
  if (opened_ == nullptr) return false;
  // Acquire: pairs with the release in add_reserved(). A reader may have followed a link into memory that it does not
  // know, because the link was written in a later critical section. Such a reader sees the mark that was written before
  // the link.
  const std::uint32_t end = ReservedMark::granules_of(header_->reserved().load(kAcquire), all_granules_);
  return end > granules() && reserve_to(end);
}

void Shard::follow_mark() noexcept {
  if (opened_ != nullptr) {
    catch_up();
    if (ReservedMark::granules_of(header_->reserved().load(kRelaxed), all_granules_) == granules())
      return known_mark_.store(ReservedMark::of(granules(), all_granules_));
  }
  put_mark_right();
}

// Repairs the mark. The mark of a shard that is used for the first time is 0. Any other mark here was overwritten: it
// covers less than this process knows, covers memory that cannot be reserved, or is invalid.
void Shard::put_mark_right() noexcept {
  Word32& mark = header_->reserved();
  const std::uint32_t word = mark.load(kRelaxed);
  const bool is_unused = word == 0 && header_->in_use.load(kRelaxed) == 0;
  if (opened_ != nullptr && !is_unused &&
      (word == 0 || ReservedMark::granules_of(word, all_granules_) == 0 ||
       ReservedMark::granules_of(word, all_granules_) > granules())) {
    // Reserved memory still exists, so it is enough to reserve until memory is exhausted.
    for (std::uint32_t end = granules(); end < all_granules_ && reserve_to(end);)
      end = next_reserved(end, 1, all_granules_);
  }
  const std::uint32_t right = opened_ != nullptr ? ReservedMark::of(granules(), all_granules_) : 0;
  mark.store(right, kRelease);
  known_mark_.store(right);
  if (opened_ != nullptr && !is_unused) repair(*this);
}

bool Shard::can_grow() const noexcept {
  if (granules() == all_granules_) return false;
  const std::uint32_t refused = refused_ms_.load();
  return refused == 0 || refused_now() - refused > kRefusedMs;
}

std::uint32_t Shard::reserve_more(std::uint32_t count) noexcept {
  const std::uint32_t begin = granules();
  const std::uint32_t end = next_reserved(begin, count, all_granules_);
  const auto bytes = std::size_t{end - begin} * kGranule;
  const bool refused = platform::reserve_pages(arena_ + std::size_t{begin} * kGranule, bytes) != 0;
  refused_ms_.store(refused ? refused_now() : 0);
  HOLDFAST_FAILPOINT("shard.grown");
  return refused ? 0 : end;
}

void Shard::add_reserved(std::uint32_t end) noexcept {
  const std::uint32_t begin = granules();
  if (end <= begin) return;  // another process or thread was first
  const std::uint32_t mark = ReservedMark::of(end, all_granules_);
  header_->reserved().store(mark, kRelease);
  crash_order();
  HOLDFAST_FAILPOINT("shard.marked");
  granules_.raise(end);
  known_mark_.store(mark);
  // If the shard was never used, its first allocation makes one free run of the whole arena (Reclaimer::make).
  if (header_->in_use.load(kRelaxed) == 0) return;
  Arena arena(*this);
  arena.release(begin, end - begin);
  if (arena.damaged()) repair(*this);
}

std::uint32_t Shard::free_granules() const noexcept {
  if (header_->in_use.load(kRelaxed) == 0) return all_granules_ - 1;
  std::uint32_t arena = all_granules_;
  if (opened_ != nullptr) {
    const std::uint32_t marked = ReservedMark::granules_of(header_->reserved().load(kRelaxed), all_granules_);
    arena = marked != 0 ? marked : granules();
  }
  const std::uint32_t counted = header_->free_granules.load(kRelaxed);
  return std::min(counted, arena) + (all_granules_ - arena);
}

}  // namespace holdfast
