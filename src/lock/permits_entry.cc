#include "lock/permits_entry.h"

#include <algorithm>
#include <atomic>

#include "lock/lock_entry.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Cursor at the lease's record, or at end.
HolderList::Cursor find(const HolderList& holders, const Lease& lease) noexcept {
  HolderList::Cursor at(holders);
  while (at.found() && !at.is_of(lease.owner, lease.sequence)) at.advance();
  return at;
}

}  // namespace

// A flush or an expire() of the entry ends all of its holder records.
bool PermitsEntry::is_live_holder(const HolderList::Cursor& at, std::uint32_t flush) const noexcept {
  return is_live(earlier(entry.expiry.load(kRelaxed), at.expiry().load(kRelaxed)), flush);
}

// ok if the cursor is at a record that counts.
Code PermitsEntry::judge_holder(const HolderList::Cursor& at) const noexcept {
  if (arena.damaged()) return Code::corrupt;
  return at.found() && is_live_holder(at, segment.flush_epoch()) ? Code::ok : Code::not_owner;
}

bool PermitsEntry::has_live_holder(std::uint32_t flush) const noexcept {
  const HolderList chain = holders();
  HolderList::Cursor at(chain);
  while (at.found() && !is_live_holder(at, flush)) at.advance();
  return at.found();
}

std::uint64_t PermitsEntry::purge(std::uint32_t flush, const TokenSet& dead) const noexcept {
  const HolderList chain = holders();
  if (chain.empty()) {
    fields.used.store(0, kRelaxed);
    return kExpiryNever;
  }
  std::uint64_t used = 0;
  std::uint64_t next_end = kNever;
  for (HolderList::Cursor at(chain); at.found();) {
    if (!is_live_holder(at, flush) || dead.has(at.fields().owner.load(kRelaxed))) {
      at.remove();
      continue;
    }
    used += at.fields().count.load(kRelaxed);
    const std::uint64_t end = expiry_ms(earlier(entry.expiry.load(kRelaxed), at.expiry().load(kRelaxed)));
    if (end != kExpiryNever) next_end = std::min(next_end, end);
    at.advance();
  }
  fields.used.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(used, ~0U)), kRelaxed);
  if (chain.empty()) count_free_permits(shard, 1);
  return next_end != kNever ? next_end : kExpiryNever;
}

// Begins at another place in the chain each time, and goes on from the first holder after the last.
void PermitsEntry::collect_owners(TokenSet& owners) const noexcept {
  static std::atomic<std::uint32_t> turn{0};
  const HolderList chain = holders();
  std::uint32_t count = 0;
  for (HolderList::Cursor at(chain); at.found(); at.advance()) ++count;
  const std::uint32_t start = count > TokenSet::kMax ? turn.fetch_add(TokenSet::kMax, kRelaxed) % count : 0;
  for (const bool behind : {true, false}) {
    std::uint32_t index = 0;
    for (HolderList::Cursor at(chain); at.found() && !owners.full(); at.advance())
      if ((index++ >= start) == behind) owners.add(at.fields().owner.load(kRelaxed));
  }
}

// Extends the entry if needed: it must not end before its holder records, nor be of an older epoch.
void PermitsEntry::make_room_for_end(std::uint64_t word) const noexcept {
  const std::uint64_t now = entry.expiry.load(kRelaxed);
  if (fields.holders.load(kRelaxed) == 0 || earlier(now, word) == now) commit(entry.expiry, word);
  note_end(shard, expiry_ms(word));
}

void PermitsEntry::add(std::uint32_t block, const Holder& holder) const noexcept {
  const bool was_free = fields.holders.load(kRelaxed) == 0;
  make_room_for_end(holder.expiry);
  holders().add(block);
  const std::uint32_t used = was_free ? 0 : fields.used.load(kRelaxed);
  fields.used.store(used + holder.count, kRelaxed);
  if (was_free) count_free_permits(shard, ~0U);
}

Code PermitsEntry::give_back(const Lease& lease) const noexcept {
  const HolderList chain = holders();
  HolderList::Cursor at = find(chain, lease);
  if (arena.damaged()) return Code::corrupt;
  // A record that has expired but was not purged yet still counts as held; a flushed one does not.
  if (!at.found() || is_flushed(at.expiry().load(kRelaxed), segment.flush_epoch())) return Code::not_owner;
  const std::uint32_t count = at.fields().count.load(kRelaxed);
  at.remove();
  fields.used.store(fields.used.load(kRelaxed) - count, kRelaxed);
  if (chain.empty()) count_free_permits(shard, 1);
  return Code::ok;
}

Code PermitsEntry::keep(const Lease& lease, std::uint32_t count) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = find(chain, lease);
  if (const Code code = judge_holder(at); code != Code::ok) return code;
  const std::uint32_t had = at.fields().count.load(kRelaxed);
  if (count == 0 || count > had) return Code::invalid;
  commit(at.fields().count, count);
  fields.used.store(fields.used.load(kRelaxed) - (had - count), kRelaxed);
  return Code::ok;
}

Code PermitsEntry::extend(const Lease& lease, std::uint64_t end_ms, std::uint64_t& before_ms) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = find(chain, lease);
  if (arena.damaged()) return Code::corrupt;
  const std::uint32_t flush = segment.flush_epoch();
  if (!at.found() || !is_live_holder(at, flush)) return has_live_holder(flush) ? Code::not_owner : Code::not_found;
  before_ms = expiry_ms(at.expiry().load(kRelaxed));
  const std::uint64_t word = expiry_word(end_ms, flush);
  make_room_for_end(word);
  crash_order();
  commit(at.expiry(), word);
  return Code::ok;
}

Code PermitsEntry::name_holder(const Lease& lease, std::uint32_t task) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = find(chain, lease);
  if (const Code code = judge_holder(at); code != Code::ok) return code;
  at.fields().task.store(task, kRelease);  // release: as for a lock; pairs with blocker_of_permits()
  return Code::ok;
}

Turn PermitsEntry::turn_of(World& world, bool fair) const noexcept {
  return holdfast::turn_of(queue(), world, platform::monotonic_ns(), fields.overtakes.load(kRelaxed),
                           [&](const Waiter& waiter) { return !fair && has(waiter.want); });
}

Chosen PermitsEntry::offer(World& world) const noexcept {
  if (!has_waiters()) return {};
  const Turn turn = turn_of(world, false);
  const auto choose = [&](const Head& head) -> WakeTarget {
    if (head.block == 0 || head.woken || !has(head.waiter.want)) return {};
    queue().note_woken(head, turn.now_ns);
    return wake_target(head.waiter);
  };
  return {.first = choose(turn.first), .aside = choose(turn.aside)};
}

}  // namespace holdfast
