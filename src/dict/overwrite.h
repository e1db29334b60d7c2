// Makes the most frequent change: replaces a key's value with another value of the same type and size. This has the
// same effect on shared memory as a transaction, with half the instructions. In unusual cases, especially on damage,
// the functions here change nothing and leave the change to a transaction.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "dict/arena.h"
#include "dict/expiry.h"
#include "dict/key.h"
#include "dict/shard.h"
#include "dict/transaction.h"

namespace holdfast {

/// Returns whether values of this type are one word, which may change while readers read it.
constexpr bool is_word(EntryType type) noexcept { return type == EntryType::number || type == EntryType::boolean; }

/// An entry that may be overwritten, and the link that leads to it.
struct Overwritable {
  Word32* link = nullptr;
  std::uint32_t block = 0;  // 0: not found
};

/// Finds the key's entry, if the entry has this type and size, and is near the beginning of its chain.
[[gnu::always_inline]] inline Overwritable find_overwritable(const Shard& shard, const Key& key, EntryType type,
                                                             std::size_t value_size) noexcept {
  constexpr std::uint32_t kSteps = 16;  // benchmark: "set, 100k numbers"
  const std::uint32_t shape = Entry::make_shape(key.length, type);
  const std::uint32_t limit = shard.granules();
  Overwritable found;
  shard.walk_chain(key.short_hash(), kSteps, kRelaxed, found.link, [&](std::uint32_t block) noexcept {
    Entry& e = shard.entry(block);
    const bool same = e.shape.load(kRelaxed) == shape && e.value_size.load(kRelaxed) == value_size &&
                      granules_for(key.length, value_size) <= limit - block && key_equals(e, key);
    if (same) found.block = block;
    return Shard::kStop;
  });
  return found;
}

/// Overwrites the word of a number or a boolean, if nothing else in its entry changes.
[[gnu::always_inline]] inline bool overwrite_word(const Shard& shard, const Key& key, const ValueIn& value,
                                                  std::uint64_t expiry) noexcept {
  const std::uint32_t block = find_overwritable(shard, key, value.type, sizeof(Word64)).block;
  if (block == 0) return false;
  Entry& e = shard.entry(block);
  if (e.flags.load(kRelaxed) != value.flags || e.expiry.load(kRelaxed) != expiry) return false;
  commit(Shard::key_words(e)[padded(key.length) / 8], value.bits);
  shard.touch(block);
  return true;
}

/// Adds to a number that never expires.
[[gnu::always_inline]] inline bool increment_word(const Shard& shard, const Key& key, double by, std::uint32_t flush,
                                                  double& sum) noexcept {
  const std::uint32_t block = find_overwritable(shard, key, EntryType::number, sizeof(Word64)).block;
  if (block == 0) return false;
  Entry& e = shard.entry(block);
  if (e.expiry.load(kRelaxed) != expiry_word(kExpiryNever, flush)) return false;
  Word64& word = Shard::key_words(e)[padded(key.length) / 8];
  sum = std::bit_cast<double>(word.load(kRelaxed)) + by;
  commit(word, std::bit_cast<std::uint64_t>(sum));
  shard.touch(block);
  return true;
}

/// Stores a string or a table in the spare block, if that block has the right size. Links this block instead of the old
/// block, which becomes the spare block. The value ends at `end_ms`.
inline bool overwrite_bytes(const Shard& shard, const Key& key, const ValueIn& value, std::uint64_t end_ms,
                            std::uint32_t flush) noexcept {
  const Overwritable old = find_overwritable(shard, key, value.type, value.size);
  if (old.block == 0) return false;
  Arena arena(shard);
  const auto granules = static_cast<std::uint32_t>(granules_for(key.length, value.size));
  const std::uint32_t block = arena.spare();
  if (!arena.is_spare(block, granules)) return false;
  shard.fill(block, key, value, expiry_word(end_ms, flush));
  note_end(shard, end_ms);
  shard.entry(block).next.store(shard.entry(old.block).next.load(kRelaxed), kRelaxed);
  commit(*old.link, block);
  arena.change_spare(block, old.block, granules);
  shard.touch_replacement(block, old.block);
  return true;
}

}  // namespace holdfast
