#include "dict/dead_owners.h"

#include "dict/expiry.h"
#include "dict/walk.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

// Adds the owner. If its slot now has another token, the owner is certainly dead, so it replaces the owner recorded for
// the slot.
void DeadOwners::add(Token token) noexcept {
  const std::uint32_t slot = slot_of(token);
  if (token == kNobody || slot >= kSlots) return;
  Token& chosen = chosen_[slot];
  if (chosen == token) return;
  if (chosen == kNobody || world_.slot(token) == nullptr) chosen = token;
}

// Adds the owners of a chain of waiters, watchers or holders that begins at `block`. Returns the size of the chain in
// granules.
std::uint32_t DeadOwners::add_chain(const Shard& shard, std::uint32_t block, EntryType type) noexcept {
  std::uint32_t walked = 0;
  EntryView view{};
  while (walked < shard.granules() && shard.inspect(block, view) && view.type == type) {
    // The owner is the first word of the value, both in a waiter and in a holder.
    add(view.value()->load(kRelaxed));
    walked += view.granules;
    block = view.entry->next.load(kRelaxed);
  }
  return walked;
}

std::uint32_t DeadOwners::add_holders(const Shard& shard, const EntryView& view) noexcept {
  std::uint32_t waiters = add_chain(shard, view.queue().head.load(kRelaxed), EntryType::waiter);
  if (view.type == EntryType::permits)
    return waiters + add_chain(shard, view.permits().holders.load(kRelaxed), EntryType::holder);
  // Add a process with many locks only once, because loading the rest of its token takes another cache line.
  if (const std::uint32_t owner = load_word_of(view.lock()).owner(); owner != last_owner_) {
    last_owner_ = owner;
    add(owner_of(world_, view.lock()));
  }
  waiters += add_chain(shard, view.lock().watchers.head.load(kRelaxed), EntryType::watcher);
  return waiters;
}

// Returns whether the entry has ended. An incomplete grant may still have the end of the previous grant.
bool DeadOwners::has_ended(const EntryView& view) const noexcept {
  if (view.is_free()) return true;
  const std::uint64_t expiry = view.entry->expiry.load(kRelaxed);
  const std::uint64_t end = expiry_ms(expiry);
  const bool ended = is_flushed(expiry, flush_) || (end != kExpiryNever && end <= now_ms_);
  return ended && !view.is_incomplete();
}

// Runs without the mutex, so it may see words from different moments. This does no harm, because the result only
// decides which processes to ask the kernel about, and whether to search with the mutex.
DeadOwners::DeadOwners(const Shard& shard, World& world, std::uint32_t flush) noexcept
    : world_(world), flush_(flush), now_ms_(platform::monotonic_ns() / 1'000'000) {
  walk_entries(shard, [&](const EntryView& view) -> std::uint32_t {
    if (!is_holdable(view.type)) return 0;
    if (has_ended(view)) ended_ += view.granules;
    return add_holders(shard, view);
  });
  for (Token& token : chosen_)
    if (token != kNobody && !world.is_dead(token)) token = kNobody;
}

}  // namespace holdfast
