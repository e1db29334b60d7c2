#include "dict/repair.h"

#include <algorithm>
#include <array>
#include <bit>

#include "dict/arena.h"
#include "dict/holder_list.h"
#include "dict/key.h"

namespace holdfast {

namespace {

/// A set of blocks, compared by count and sum of squares. If a single word was overwritten, at least one of the two
/// differs.
struct Tally {
  std::uint32_t count = 0;
  std::uint64_t sum = 0;

  void add(std::uint32_t block) noexcept {
    ++count;
    sum += std::uint64_t{block} * block;
  }
  bool operator==(const Tally&) const = default;
};

enum Kind : std::size_t { kKeyed, kWaiter, kNode, kHolder, kFree, kKinds };
using Census = std::array<Tally, kKinds>;

Kind kind_of(EntryType type) noexcept {
  switch (type) {
    case EntryType::waiter:
    case EntryType::watcher:
      return kWaiter;
    case EntryType::node:
      return kNode;
    case EntryType::holder:
      return kHolder;
    default:
      return kKeyed;
  }
}

std::uint32_t hash_of(Entry& entry, std::uint32_t length, std::uint64_t seed) noexcept {
  constexpr std::uint32_t kChunk = 512;
  alignas(64) std::array<char, kChunk> bytes;
  const Word64* const words = Shard::key_words(entry);
  if (length <= kChunk) {
    load_bytes(words, bytes.data(), length);
    return static_cast<std::uint32_t>(hash_key(bytes.data(), length, seed));
  }
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, seed);
  for (std::uint32_t at = 0; at < length; at += kChunk) {
    const std::uint32_t here = std::min(length - at, kChunk);
    load_bytes(words + at / 8, bytes.data(), here);
    XXH3_64bits_update(&state, bytes.data(), here);
  }
  return static_cast<std::uint32_t>(XXH3_64bits_digest(&state));
}

class Audit {
 public:
  Audit(const Shard& shard, std::uint64_t seed) noexcept
      : shard_(shard), header_(shard.header()), arena_(shard), seed_(seed) {}

  bool run() noexcept {
    if (header_.in_use.load(kRelaxed) == 0) return is_blank();
    arena_.settle();
    return !arena_.damaged() && walk_arena() && walk_chains() &&
           arena_.tally_free([this](std::uint32_t block) { reached_[kFree].add(block); }) && lies_ == reached_ &&
           counts_fit();
  }

 private:
  bool is_blank() noexcept;
  bool walk_arena() noexcept;
  bool is_sound_free(std::uint32_t block, std::uint32_t& size) noexcept;
  bool walk_chains() noexcept;
  bool walk_chain(std::uint32_t bucket) noexcept;
  bool walk_parts(const EntryView& view) noexcept;
  bool walk_queue(const QueueFields& queue, EntryType type) noexcept;
  bool walk_reason(const EntryView& view) noexcept;
  bool walk_holders(const EntryView& view) noexcept;
  /// Records that the entry `view` leads to the holder at `block`.
  bool reach_holder(std::uint32_t block, const EntryView& view, EntryView& holder) noexcept;
  bool walk_list(const EntryView& view) noexcept;
  bool counts_fit() const noexcept;
  /// Returns whether the links may still reach another block of this kind.
  bool more(Kind kind) const noexcept { return reached_[kind].count < lies_[kind].count; }

  const Shard& shard_;
  ShardHeader& header_;
  Arena arena_;
  const std::uint64_t seed_;
  Census lies_;     // blocks found in the arena
  Census reached_;  // blocks found by links
  std::uint32_t free_granules_ = 0;
  std::uint32_t free_bits_ = 0;
  std::uint32_t perhaps_free_ = 0;
  bool foreign_ = false;  // whether an entry was cut off
};

// Checks that a shard that is marked as unused was indeed never used.
bool Audit::is_blank() noexcept {
  bool blank = header_.entries.load(kRelaxed) == 0 && header_.free_granules.load(kRelaxed) == 0;
  for (std::uint32_t bucket = 0; bucket < shard_.buckets() && blank; ++bucket)
    blank = shard_.bucket(bucket).load(kRelaxed) == 0;
  if (!blank) header_.in_use.store(1, kRelaxed);
  return blank;
}

// --- from left to right ---

bool Audit::is_sound_free(std::uint32_t block, std::uint32_t& size) noexcept {
  size = arena_.size_at(block);
  if (size == 0 || shard_.words32(block)[size * (kGranule / 4) - 1].load(kRelaxed) != size) return false;
  free_granules_ += size;
  free_bits_ += size == 1 ? 1 : 2;
  return true;
}

bool Audit::walk_arena() noexcept {
  const std::uint32_t hand = header_.hand.load(kRelaxed);
  bool hand_fits = hand == 0 || hand == shard_.granules();
  bool after_free = false;
  for (std::uint32_t at = 1; at < shard_.granules();) {
    EntryView view{};
    hand_fits = hand_fits || hand == at;
    const bool is_free = arena_.is_free(at);
    if (is_free ? after_free || !is_sound_free(at, view.granules) : !shard_.inspect(at, view)) return false;
    lies_[is_free ? kFree : kind_of(view.type)].add(at);
    after_free = is_free;
    at += view.granules;
  }
  std::uint32_t bits = 0;
  for (std::uint32_t word = 0; word < (shard_.granules() + 63) / 64; ++word)
    bits += static_cast<std::uint32_t>(std::popcount(shard_.free_bits()[word].load(kRelaxed)));
  return hand_fits && bits == free_bits_;
}

// --- along the links ---

bool Audit::walk_chains() noexcept {
  for (std::uint32_t bucket = 0; bucket < shard_.buckets(); ++bucket)
    if (!walk_chain(bucket)) return false;
  return !foreign_;
}

bool Audit::walk_chain(std::uint32_t bucket) noexcept {
  Word32* link = &shard_.bucket(bucket);
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    if (!more(kKeyed) || !shard_.inspect_keyed(block, view)) return false;
    reached_[kKeyed].add(block);
    const std::uint32_t hash = view.entry->hash.load(kRelaxed);
    if (&shard_.bucket_of(hash) != &shard_.bucket(bucket)) return false;
    if (hash_of(*view.entry, view.key_length, seed_) != hash) {
      foreign_ = true;
      commit_change(shard_.stripes(), hash, *link, view.entry->next.load(kRelaxed));
      continue;
    }
    if (!walk_parts(view)) return false;
    link = &view.entry->next;
  }
  return true;
}

bool Audit::walk_parts(const EntryView& view) noexcept {
  if (view.type == EntryType::list) return walk_list(view);
  if (!is_holdable(view.type)) return true;
  const bool is_lock = view.type == EntryType::lock;
  if (is_lock || view.is_free()) ++perhaps_free_;
  if (!walk_queue(view.queue(), EntryType::waiter)) return false;
  if (!is_lock) return walk_holders(view);
  return walk_queue(view.lock().watchers, EntryType::watcher) && walk_reason(view);
}

bool Audit::walk_queue(const QueueFields& queue, EntryType type) noexcept {
  std::uint32_t last = 0;
  for (std::uint32_t block = queue.head.load(kRelaxed); block != 0; last = block, block = shard_.entry(last).next) {
    EntryView view{};
    if (!more(kWaiter) || !shard_.inspect(block, view) || view.type != type) return false;
    reached_[kWaiter].add(block);
  }
  return queue.tail.load(kRelaxed) == last;
}

bool Audit::walk_reason(const EntryView& view) noexcept {
  const std::uint32_t block = view.lock().reason.load(kRelaxed);
  EntryView holder{};
  return block == 0 || (reach_holder(block, view, holder) && holder.entry->next.load(kRelaxed) == 0);
}

bool Audit::reach_holder(std::uint32_t block, const EntryView& view, EntryView& holder) noexcept {
  if (!more(kHolder) || !shard_.inspect(block, holder) || !is_holder(holder, view.entry->hash.load(kRelaxed)))
    return false;
  reached_[kHolder].add(block);
  return true;
}

// Checks the holders of an entry. Fencing tokens that are not lost must descend. A shortcut must lead to the next
// holder that has this shortcut.
bool Audit::walk_holders(const EntryView& view) noexcept {
  const PermitFields& permits = view.permits();
  std::array<std::uint32_t, kShortcuts> next{};
  for (std::uint32_t i = 0; i < kShortcuts; ++i) next[i] = permits.shortcuts[i].load(kRelaxed);
  std::uint32_t number = 0;
  std::uint64_t used = 0;
  std::uint64_t last = ~std::uint64_t{0};
  EntryView holder{};
  for (std::uint32_t block = permits.holders.load(kRelaxed); block != 0; block = holder.entry->next.load(kRelaxed)) {
    if (!reach_holder(block, view, holder)) return false;
    ++number;
    used += holder.holder().count.load(kRelaxed);
    const std::uint64_t sequence = holder.holder().sequence.load(kRelaxed);
    if (sequence >= last) return false;
    if (sequence != 0) last = sequence;
    const std::uint32_t levels = shortcut_levels(sequence);
    for (std::uint32_t i = 0; i < kShortcuts; ++i) {
      const std::uint32_t link = shortcut_of(*holder.entry, i + 1).load(kRelaxed);
      if (i < levels ? next[i] != block : link != 0) return false;
      if (i < levels) next[i] = link;
    }
  }
  return permits.number.load(kRelaxed) == number && next == decltype(next){} &&
         permits.used.load(kRelaxed) == std::min<std::uint64_t>(used, ~0U);
}

bool Audit::walk_list(const EntryView& view) noexcept {
  const ListEnds ends = view.list_ends();
  const std::uint32_t hash = view.entry->hash.load(kRelaxed);
  std::uint32_t block = ends.first;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < ends.length; ++i) {
    EntryView at{};
    if (!more(kNode) || !shard_.inspect(block, at) || at.type != EntryType::node) return false;
    reached_[kNode].add(block);
    const auto& node = *reinterpret_cast<const ListNode*>(at.entry);
    if (node.hash.load(kRelaxed) != hash || (i != 0 && node.previous.load(kRelaxed) != last)) return false;
    last = block;
    block = node.next.load(kRelaxed);
  }
  return last != 0 && last == ends.last;
}

bool Audit::counts_fit() const noexcept {
  return header_.free_granules.load(kRelaxed) == free_granules_ &&
         header_.perhaps_free.load(kRelaxed) == perhaps_free_ &&
         header_.entries.load(kRelaxed) == lies_[kKeyed].count &&
         header_.waiters.load(kRelaxed) == lies_[kWaiter].count;
}

}  // namespace

bool audit(const Shard& shard, std::uint64_t seed) noexcept { return Audit(shard, seed).run(); }

}  // namespace holdfast
