// How a shard is read without its mutex: inline, as it is most of what a get does.
#pragma once

#include "base/failpoint.h"
#include "dict/shard.h"
#include "dict/words.h"

namespace holdfast {

/// A chain is hardly ever longer.
inline constexpr std::uint32_t kPlainSteps = 16;

// REQUIRES: an entry with a key.
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

// A short chain without damage and without another key of the same hash and length. Anything else is left to read(),
// which begins anew.
[[gnu::always_inline]] inline Shard::Read Shard::read_inline(const Key& key, ValueOut& out) const noexcept {
  const std::uint64_t start = epoch();
  const std::uint32_t short_hash = key.short_hash();
  // Acquire pairs with commit(): the entry behind a link is complete.
  std::uint32_t block = bucket_of(short_hash).load(kAcquire);
  for (std::uint32_t steps = 0; holds_header(block) && steps < kPlainSteps; ++steps) {
    Entry& e = entry(block);
    const std::uint32_t shape = e.shape.load(kRelaxed);
    const std::uint32_t hash = e.hash.load(kRelaxed);
    if (hash != short_hash || Entry::key_length_of(shape) != key.length) {
      if (!same_bucket(hash, short_hash)) break;
      block = e.next.load(kAcquire);
      continue;
    }
    EntryView view;
    if (!inspect_keyed(block, shape, view) || !key_equals(e, key)) break;
    touch(block);
    const Read result = copy_value(view, out);
    if (unchanged_since(start)) [[likely]]
      return result;
    return disturbed(result, view, out, short_hash, start);
  }
  return block == 0 && unchanged_since(start) ? Read::missing : read(key, out);
}

}  // namespace holdfast
