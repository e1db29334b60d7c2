#include "lock/permits_entry.h"

#include <algorithm>
#include <atomic>

#include "dict/probes.h"
#include "lock/lock_entry.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

// For many holders, a check takes a few dozen nanoseconds for each holder. At the rates below, checks take a few per
// cent of the time if leases end, and a few tenths of a per cent if none ends. The benchmark is "Many holders of one
// key", row "refused try", where no lease ends; no benchmark has leases that end.
constexpr std::uint32_t kHoldersPerMs = 1024;
constexpr std::uint32_t kHoldersPerMsIdle = 64;
constexpr std::uint32_t kRestMaxMs = 1000;

std::uint64_t now_ms() noexcept { return platform::coarse_monotonic_ns() / 1'000'000; }

void subtract(Word32& word, std::uint32_t count) noexcept { word.store(word.load(kRelaxed) - count, kRelaxed); }

}  // namespace

// Returns whether the record is valid. A flush or an expire() of the entry ends all of its holder records.
bool PermitsEntry::is_live_holder(const HolderList::Cursor& at, std::uint32_t flush) const noexcept {
  return is_live(earlier(entry.expiry.load(kRelaxed), at.expiry().load(kRelaxed)), flush);
}

// Returns ok if the cursor is on a valid record.
Code PermitsEntry::judge_holder(const HolderList::Cursor& at) const noexcept {
  if (arena.damaged()) return Code::corrupt;
  return at.found() && is_live_holder(at, segment.flush_epoch()) ? Code::ok : Code::not_owner;
}

// Returns whether any holder is live. Checks only a few holders: if these have ended but there are many others, assumes
// that one of the others is live.
bool PermitsEntry::has_live_holder(std::uint32_t flush) const noexcept {
  const HolderList chain = holders();
  HolderList::Cursor at(chain);
  for (std::uint32_t seen = 0; at.found() && !is_live_holder(at, flush); at.advance())
    if (++seen == kFewHolders) return !has_few_holders();
  return at.found();
}

// Returns whether the record is valid. If it is not, removes it, which advances the cursor. If it is, notes when it
// ends, and leaves the cursor on it.
bool PermitsEntry::check_one(HolderList::Cursor& at, std::uint32_t flush, const TokenSet& dead,
                             std::uint64_t& next_end) const noexcept {
  const Token owner = at.fields().owner.load(kRelaxed);
  if (!is_live_holder(at, flush) || dead.has(owner)) {
    if (dead.has(owner)) probe_takeover(shard, entry, owner, at.sequence());
    const std::uint32_t count = at.fields().count.load(kRelaxed);
    at.remove();
    if (arena.damaged()) return false;
    subtract(fields.used, count);
    subtract(fields.number, 1);
    return false;
  }
  const std::uint64_t end = expiry_ms(earlier(entry.expiry.load(kRelaxed), at.expiry().load(kRelaxed)));
  if (end != kExpiryNever) next_end = std::min(next_end, end);
  return true;
}

std::uint64_t PermitsEntry::purge(std::uint32_t flush, const TokenSet& dead, TokenSet& owners) const noexcept {
  const HolderList chain = holders();
  const bool was_free = chain.empty();
  std::uint64_t used = 0;
  std::uint32_t number = 0;
  std::uint64_t next_end = kNever;
  for (HolderList::Cursor at(chain); at.found();) {
    if (!check_one(at, flush, dead, next_end)) continue;
    used += at.fields().count.load(kRelaxed);
    ++number;
    owners.add(at.fields().owner.load(kRelaxed));
    at.advance();
  }
  if (arena.damaged()) return kExpiryNever;
  fields.used.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(used, ~0U)), kRelaxed);
  fields.number.store(number, kRelaxed);
  fields.next_end.store(next_end, kRelaxed);
  fields.looked.store(has_few_holders() ? 0 : static_cast<std::uint32_t>(now_ms()), kRelaxed);
  if (!was_free && chain.empty()) count_free_permits(shard, 1);
  return next_end != kNever ? next_end : kExpiryNever;
}

bool PermitsEntry::claim_check(bool at_once) const noexcept {
  const std::uint64_t now = now_ms();
  const std::uint32_t rested = static_cast<std::uint32_t>(now) - fields.looked.load(kRelaxed);
  const std::uint32_t number = fields.number.load(kRelaxed);
  const bool rested_for_ends = rested >= std::min(number / kHoldersPerMs, kRestMaxMs);
  if (!at_once && rested < std::min(number / kHoldersPerMsIdle, kRestMaxMs) &&
      !(rested_for_ends && time_passed(fields.next_end.load(kRelaxed))))
    return false;
  fields.looked.store(static_cast<std::uint32_t>(now), kRelaxed);
  // If the time has not passed, leave it unchanged, because the check cannot find an earlier end.
  if (time_passed(fields.next_end.load(kRelaxed))) fields.next_end.store(kNever, kRelaxed);
  return true;
}

void PermitsEntry::check_some(HolderCheck& check, std::uint32_t flush, const TokenSet& dead,
                              std::uint32_t max) const noexcept {
  const HolderList chain = holders();
  if (chain.empty()) {
    check.next = 0;
    return;
  }
  HolderList::Cursor at =
      check.next == HolderCheck::kFirst ? HolderList::Cursor(chain) : HolderList::Cursor(chain, check.next);
  // Stop only at a holder whose fencing token is intact, because only such a holder can be found again.
  for (std::uint32_t seen = 0; at.found() && (seen < max || at.sequence() == 0); ++seen) {
    if (!check_one(at, flush, dead, check.next_end)) {
      check.removed = true;
      continue;
    }
    check.see(at.fields().owner.load(kRelaxed));
    at.advance();
  }
  if (chain.empty()) count_free_permits(shard, 1);
  const std::uint64_t next = at.found() ? at.sequence() : 0;
  if (next >= check.next) return arena.set_damaged();  // the check would not terminate
  check.next = next;
  if (next == 0) fields.next_end.store(std::min(fields.next_end.load(kRelaxed), check.next_end), kRelaxed);
}

std::uint64_t PermitsEntry::next_check_ms() const noexcept {
  const std::uint64_t end = fields.next_end.load(kRelaxed);
  if (end == kNever) return kExpiryNever;
  const std::uint64_t now = now_ms();
  const std::uint32_t rested = static_cast<std::uint32_t>(now) - fields.looked.load(kRelaxed);
  const std::uint32_t rest = std::min(fields.number.load(kRelaxed) / kHoldersPerMs, kRestMaxMs);
  return std::max(end, rested < rest ? now + rest - rested : now);
}

void PermitsEntry::collect_owners(TokenSet& owners, std::uint32_t max) const noexcept {
  const HolderList chain = holders();
  HolderList::Cursor at(chain);
  for (std::uint32_t seen = 0; at.found() && seen < max; ++seen, at.advance())
    owners.add(at.fields().owner.load(kRelaxed));
}

bool PermitsEntry::has_holder_up_to(std::uint64_t grant, std::uint32_t flush, const TokenSet& dead) const noexcept {
  const HolderList chain = holders();
  for (HolderList::Cursor at(chain, grant); at.found(); at.advance())
    if (is_live_holder(at, flush) && !dead.has(at.fields().owner.load(kRelaxed))) return true;
  return false;
}

std::uint64_t PermitsEntry::newest_grant(std::uint32_t flush, const TokenSet& dead) const noexcept {
  const HolderList chain = holders();
  for (HolderList::Cursor at(chain); at.found(); at.advance())
    if (at.sequence() != 0 && is_live_holder(at, flush) && !dead.has(at.fields().owner.load(kRelaxed)))
      return at.sequence();
  return 0;
}

// Extends the life of the entry if necessary. The entry must not end before its holder records, and must not belong to
// an older flush epoch.
void PermitsEntry::make_room_for_end(std::uint64_t word) const noexcept {
  const std::uint64_t now = entry.expiry.load(kRelaxed);
  if (fields.holders.load(kRelaxed) == 0 || earlier(now, word) == now) commit(entry.expiry, word);
  const std::uint64_t end = expiry_ms(word);
  note_end(shard, end);
  if (end != kExpiryNever && end < fields.next_end.load(kRelaxed)) fields.next_end.store(end, kRelaxed);
}

void PermitsEntry::add(std::uint32_t block, const Holder& holder) const noexcept {
  const bool was_free = fields.holders.load(kRelaxed) == 0;
  if (was_free) forget_holders();
  make_room_for_end(holder.expiry);
  holders().add(block);
  fields.used.store(fields.used.load(kRelaxed) + holder.count, kRelaxed);
  fields.number.store(fields.number.load(kRelaxed) + 1, kRelaxed);
  if (was_free) count_free_permits(shard, ~0U);
}

void PermitsEntry::forget_holders() const noexcept {
  fields.used.store(0, kRelaxed);
  fields.number.store(0, kRelaxed);
  fields.looked.store(0, kRelaxed);
  fields.next_end.store(kNever, kRelaxed);
}

void PermitsEntry::note_first(std::uint32_t block, const Holder& holder) const noexcept {
  forget_holders();
  fields.used.store(holder.count, kRelaxed);
  fields.number.store(1, kRelaxed);
  if (expiry_ms(holder.expiry) != kExpiryNever) fields.next_end.store(expiry_ms(holder.expiry), kRelaxed);
  holders().add_shortcuts(block);
}

bool PermitsEntry::has(const Lease& lease) const noexcept {
  return judge_holder(holders().find(lease.owner, lease.sequence)) == Code::ok;
}

Code PermitsEntry::give_back(const Lease& lease, Since& since) const noexcept {
  const HolderList chain = holders();
  HolderList::Cursor at = chain.find(lease.owner, lease.sequence);
  if (arena.damaged()) return Code::corrupt;
  // A record that has expired but has not been purged yet still counts as held, but a flushed record does not.
  if (!at.found() || is_flushed(at.expiry().load(kRelaxed), segment.flush_epoch())) return Code::not_owner;
  const std::uint32_t count = at.fields().count.load(kRelaxed);
  since.bits = at.fields().since.load(kRelaxed);
  at.remove();
  if (arena.damaged()) return Code::corrupt;
  subtract(fields.used, count);
  subtract(fields.number, 1);
  if (chain.empty()) count_free_permits(shard, 1);
  return Code::ok;
}

Code PermitsEntry::keep(const Lease& lease, std::uint32_t count) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = chain.find(lease.owner, lease.sequence);
  if (const Code code = judge_holder(at); code != Code::ok) return code;
  const std::uint32_t had = at.fields().count.load(kRelaxed);
  if (count == 0 || count > had) return Code::invalid;
  commit(at.fields().count, count);
  subtract(fields.used, had - count);
  return Code::ok;
}

// Gives the lease all permits. Relies only on the chain of records, because the words derived from it may have been
// overwritten.
Code PermitsEntry::upgrade(const Lease& lease, std::uint64_t& end_ms) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = chain.find(lease.owner, lease.sequence);
  if (const Code code = judge_holder(at); code != Code::ok) return code;
  end_ms = expiry_ms(earlier(entry.expiry.load(kRelaxed), at.expiry().load(kRelaxed)));
  HolderList::Cursor other(chain);
  if (other.found() && other.is_of(lease.owner, lease.sequence)) other.advance();
  if (arena.damaged()) return Code::corrupt;
  if (other.found()) return Code::locked;
  commit(at.fields().count, kAllPermits);
  fields.used.store(kAllPermits, kRelaxed);
  fields.number.store(1, kRelaxed);
  return Code::ok;
}

Code PermitsEntry::extend(const Lease& lease, std::uint64_t end_ms, std::uint64_t& before_ms) const noexcept {
  const HolderList chain = holders();
  const HolderList::Cursor at = chain.find(lease.owner, lease.sequence);
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
  const HolderList::Cursor at = chain.find(lease.owner, lease.sequence);
  if (const Code code = judge_holder(at); code != Code::ok) return code;
  at.fields().task.store(task, kRelease);  // release, as for a lock: pairs with blocker_of_permits()
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
