// Counted permits: what rwlocks and semaphores are made of.
//
// A permits entry has a total, and a chain of holds which say who has how many of them. A semaphore gives out one or
// more at a time. A rwlock has kAllPermits: a reader takes one, a writer all of them, and who keeps one of all of them
// has become a reader without ever letting go. A hold is proved by owner and fencing number, as a lock is; a holder
// whose process is dead has lost its permits as soon as somebody misses them.
//
// Order: waiters queue by their arrival, and nobody passes a waiter for whom there are not enough: neither do readers
// keep a writer waiting for ever, nor the other way round. Where there are enough, and the first waiter has been woken
// but has not come yet, others pass it as they pass the first waiter of a lock (lock/handoff.h). Whoever is admitted
// wakes the next one if there is enough for it as well: so one wake-up leads to each grant.
//
// An attempt that is refused, a release and a renewal take time for each holder.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// What somebody wants. REQUIRES: 1 <= want <= total <= kAllPermits.
struct PermitsClaim {
  Claim claim;
  PermitsKind kind;
  std::uint32_t want;
  std::uint32_t total;  // the last one who asked decides it
};

/// ok, locked, no_memory, too_large, timeout, busy, removed, system.
Code permits_try(Dictionary& dictionary, std::string_view key, const PermitsClaim& claim, Lease& lease) noexcept;
/// As permits_try; when locked, the waiter is queued, and `sleep` is the time (s) after which to look again. deadlock:
/// as lock_wait.
Code permits_wait(Dictionary& dictionary, std::string_view key, const PermitsClaim& claim, Parker& parker,
                  std::uint32_t waiter, Lease& lease, double& sleep) noexcept;
/// Gives back all permits of the lease but `count`, in one step. ok, not_owner, invalid (count), timeout, busy,
/// removed.
Code permits_keep(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t count) noexcept;

struct PermitsCount {
  std::uint32_t used = 0;  // by processes that live
  std::uint32_t waiters = 0;
};
/// All 0 if there is no permits entry. ok, timeout, busy, removed.
Code count_permits(Dictionary& dictionary, std::string_view key, PermitsCount& count) noexcept;

}  // namespace holdfast
