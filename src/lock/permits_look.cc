#include "lock/permits_look.h"

#include <atomic>

#include "lock/permits_entry.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// Holders that are looked at in one section of the mutex: some microseconds.
constexpr std::uint32_t kHoldersPerSection = 256;
/// Of so many looks one is made in one section, to count anew: what was overwritten of the counts is put right there.
constexpr std::uint32_t kLooksPerRecount = 64;

void name_owners(const LongLook& look, TokenSet& owners) noexcept {
  static std::atomic<std::uint32_t> turn{0};
  const std::uint32_t start = turn.load(kRelaxed);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    owners.add(look.owners[(start + i) % kSlots]);
    if (!owners.full()) continue;
    turn.store((start + i + 1) % kSlots, kRelaxed);
    return;
  }
}

Code look_at_part(Transaction& change, const TokenSet& dead, bool recount, LongLook& look, Chosen& chosen) noexcept {
  if (!change.is(EntryType::permits)) {
    look.next = 0;
    return Code::ok;
  }
  const PermitsEntry permits(change);
  if (recount) {
    TokenSet some;
    permits.purge(change.flush_epoch(), dead, some);
  }
  permits.look_on(look, change.flush_epoch(), dead, kHoldersPerSection);
  if (change.arena().damaged()) return Code::corrupt;
  if (look.next == 0 && look.removed) chosen = permits.offer(change.world());
  return Code::ok;
}

}  // namespace

bool look_at_many(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept {
  static std::atomic<std::uint32_t> looks{0};
  bool recount = looks.fetch_add(1, kRelaxed) % kLooksPerRecount == kLooksPerRecount - 1;
  LongLook look;
  Chosen chosen;
  Code code = Code::ok;
  // The numbers descend, so the parts come to an end.
  while (look.next != 0 && code == Code::ok) {
    code = dictionary.transact(
        key, [&](Transaction& change) { return look_at_part(change, dead, recount, look, chosen); },
        kAttemptPatienceNs);
    look.removed = look.removed || recount;
    recount = false;
  }
  wake(dictionary.world(), chosen);
  name_owners(look, blocked_by.holders);
  blocked_by.end_ms = look.next_end != kNever ? look.next_end : kExpiryNever;
  return look.removed;
}

}  // namespace holdfast
