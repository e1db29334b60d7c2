// Reads a shard without its mutex. The code is inlined, because it does most of the work of a get.
#pragma once

#include "base/failpoint.h"
#include "dict/key.h"
#include "dict/packed_keys.h"
#include "dict/shard.h"

namespace holdfast {

/// Hardly any chain has more entries than this. The benchmark is "get, 100k numbers".
inline constexpr std::uint32_t kPlainSteps = 16;

// Copies the value of an entry. REQUIRES: the entry has a key.
[[gnu::always_inline]] inline Shard::Read Shard::copy_value(const EntryView& view, ValueOut& out) const noexcept {
  out.type = view.type;
  out.flags = view.entry->flags.load(kRelaxed);
  out.expiry = view.entry->expiry.load(kRelaxed);
  out.size = view.value_size;
  if (view.type == EntryType::string || view.type == EntryType::table) {
    if (out.size > out.capacity) return Read::no_room;
    HOLDFAST_FAILPOINT("read.found");
    load_bytes(view.value(), out.buffer, out.size);
    return Read::found;
  }
  if (view.type == EntryType::lock) return copy_lock(view, out);
  if (view.type == EntryType::permits) return copy_permits(view, out);
  out.bits = view.value()->load(kAcquire);
  return Read::found;
}

// Reads a number, which is the most frequent type, without the checks that other types need. Returns false if the entry
// is not a number with this key, or seems damaged.
[[gnu::always_inline]] inline bool Shard::copy_number(const Key& key, std::uint32_t block, std::uint32_t shape,
                                                      ValueOut& out) const noexcept {
  Entry& e = entry(block);
  if (shape != Entry::make_shape(key.length, EntryType::number) || e.value_size.load(kRelaxed) != sizeof(Word64) ||
      granules_for(key.length, sizeof(Word64)) > granules() - block || !key_equals(e, key))
    return false;
  touch(block);
  out.type = EntryType::number;
  out.flags = e.flags.load(kRelaxed);
  out.expiry = e.expiry.load(kRelaxed);
  out.size = sizeof(Word64);
  out.bits = key_words(e)[padded(key.length) / 8].load(kAcquire);
  return true;
}

// Handles only short chains without damage and without another key of the same hash and length. Leaves all other cases
// to read(), which starts from the beginning.
[[gnu::always_inline]] inline Shard::Read Shard::read_inline(const Key& key, ValueOut& out) const noexcept {
  const std::uint64_t start = epoch();
  std::uint32_t found = 0;
  std::uint32_t shape = 0;
  Word32* link = nullptr;
  const Walk walk = walk_chain(key.short_hash(), kPlainSteps, kAcquire, link, [&](std::uint32_t block) noexcept {
    shape = entry(block).shape.load(kRelaxed);
    if (Entry::key_length_of(shape) != key.length) return std::uint32_t{1};
    found = block;
    return kStop;
  });
  if (walk == Walk::stopped && copy_number(key, found, shape, out))
    return unchanged_since(start) ? Read::found : disturbed(Read::found, {}, out, key.short_hash(), start);
  EntryView view;
  if (walk == Walk::stopped && inspect_keyed(found, shape, view) && key_equals(*view.entry, key)) [[likely]] {
    touch(found);
    const Read result = copy_value(view, out);
    if (unchanged_since(start)) [[likely]]
      return result;
    return disturbed(result, view, out, key.short_hash(), start);
  }
  return walk == Walk::end && unchanged_since(start) ? Read::missing : read(key, out);
}

inline bool begins_with(const EntryView& view, std::string_view prefix) noexcept {
  if (view.key_length < prefix.size()) return false;
  const Word64* words = Shard::key_words(*view.entry);
  for (; prefix.size() >= 8; prefix.remove_prefix(8), ++words)
    if (words->load(kRelaxed) != load_word(prefix.data())) return false;
  if (prefix.empty()) return true;
  const std::uint64_t mask = ~(~std::uint64_t{0} << prefix.size() * 8);
  return (words->load(kRelaxed) & mask) == load_tail(prefix.data(), prefix.size());
}

[[gnu::always_inline]] inline bool Shard::add_keys(std::uint32_t index, const KeyFilter& filter,
                                                   PackedKeys& packed) const noexcept {
  // The acquire order pairs with commit(), so the entry behind a link is complete.
  std::uint32_t block = bucket(index).load(kAcquire);
  std::uint32_t walked = 0;  // in granules: the entries of a chain are distinct
  while (block != 0 && packed.count() < filter.max) {
    EntryView view{};
    if (!inspect_in(index, block, view)) return false;
    walked += view.granules;
    if (walked > granules()) return false;
    if (begins_with(view, filter.prefix) &&
        (filter.listed == Listed::live ? counts(view, filter.flush) : is_in_use(view, filter.flush)))
      packed.add(key_words(*view.entry), view.key_length);
    block = view.entry->next.load(kAcquire);
  }
  return true;
}

[[gnu::always_inline]] inline Shard::Copy Shard::copy_keys(std::uint32_t index, const KeyFilter& filter,
                                                           PackedKeys& packed) const noexcept {
  const PackedKeys::Mark before = packed.mark();
  const std::uint64_t start = epoch();
  const bool sense = add_keys(index, filter, packed);
  const bool unchanged = unchanged_since(start);
  if (sense && unchanged) [[likely]]
    return Copy::whole;
  packed.back_to(before);
  return unchanged ? Copy::damaged : Copy::torn;
}

}  // namespace holdfast
