#include "lock/changes.h"

#include <algorithm>

#include "base/failpoint.h"
#include "dict/versions.h"
#include "lock/blocking_waiter.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// Marks this process as a watcher of the stripe. Call this before comparing the version.
void announce(const Stripe& stripe, Token self) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << slot_of(self) % 64;
  if ((stripe.watchers.load(kRelaxed) & bit) == 0) stripe.watchers.fetch_or(bit, kRelaxed);
  // Pairs with the fence in wake_watchers_of() (dict/versions.cc).
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Checks the version for a waiter. A post to this process clears its bit in the stripe, so this call sets the bit
// again.
WatchState peek_version(const Watch& watch, LivenessCache& /*liveness*/, const WaiterId& waiter) noexcept {
  const auto& stripe = *static_cast<const Stripe*>(watch.fields);
  announce(stripe, waiter.self);
  const std::uint64_t version = watch.segment->version_of(stripe);
  // If the version is odd, the process that made it odd may have died after its commit, so the next step settles the
  // version.
  const bool same = version == watch.grant && is_settled_version(version) && !watch.segment->retired();
  return same ? WatchState::held : WatchState::granted;
}

Blocker no_blocker(const Watch& /*watch*/) noexcept { return {}; }
std::uint64_t no_end(const Watch& /*watch*/) noexcept { return kExpiryNever; }

constexpr WatchKind kVersionWatch{&peek_version, &no_blocker, &no_end, true, false};

Code compare(Dictionary& dictionary, std::string_view key, const Waiter& waiter, BlockedBy& blocked_by,
             Version& version) noexcept {
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return Code::removed;
  if (!segment->has_versions()) return Code::unsupported;
  const Key its(key, segment->seed());
  Shard& shard = segment->shard_of(its.hash);
  if (!shard.is_open()) {
    if (const Code opened = shard.open(Shard::Unopened::open); opened != Code::ok) return opened;
  }
  const Stripe& stripe = shard.stripes().of(its.short_hash());
  blocked_by.watch.kind = &kVersionWatch;
  blocked_by.watch.fields = &stripe;
  blocked_by.watch.segment = segment;
  blocked_by.watch.shard = &shard;
  blocked_by.watch.grant = version.number;
  blocked_by.watch.deaths = version.deaths;
  // Keep the watch before comparing, because another thread of this process may receive the post for this waiter.
  keep_watched(waiter, blocked_by);
  HOLDFAST_FAILPOINT("watch.kept");
  announce(stripe, waiter.owner);
  const std::uint64_t now = segment->settled_version_of(shard, stripe);
  // If deaths end the wait, the waiter sleeps only once, because the next step cannot tell why it was woken.
  const bool goes_on = waiter.is_new || !version.deaths;
  if (now == version.number && goes_on) return Code::locked;
  version.number = now;
  version.stripe = segment->stripe_number(its.hash);
  version.end_ms = kExpiryNever;
  return Code::ok;
}

}  // namespace

Code watch_changes(Dictionary& dictionary, std::string_view key, const WaitStep& step, Version& version) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody) return Code::system;
  const Waiter waiter = step.parker.begin(step.waiter, self);
  if (waiter.arrival == 0) return Code::invalid;
  BlockedBy blocked_by;
  blocked_by.parker = &step.parker;
  const Code code = conclude_wait(step, waiter, compare(dictionary, key, waiter, blocked_by, version), blocked_by);
  return code == Code::locked ? Code::unchanged : code;
}

Code wait_for_change(Dictionary& dictionary, std::string_view key, double timeout, Version& version) {
  BlockingWaiter waiter(dictionary.world());
  const std::uint64_t deadline_ns = deadline_of(timeout);
  for (;;) {
    const Code code = watch_changes(dictionary, key, waiter.step(), version);
    if (code != Code::unchanged || platform::monotonic_ns() >= deadline_ns) return code;
    waiter.sleep(deadline_ns);
  }
}

}  // namespace holdfast
