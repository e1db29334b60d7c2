// Counted permits: what rwlocks and semaphores are made of.
//
// A permits entry has a total, and a chain of holder records: each says which process has how many permits. A semaphore
// gives out one or more at a time. A rwlock has kAllPermits: a reader takes one, a writer all of them. A writer that
// keeps one of them becomes a reader without ever letting go. Owner and fencing number prove a holder record, as they
// prove a lock's lease; a dead process has lost its permits as soon as another misses them.
//
// Order: waiters queue by their arrival, and no request overtakes a waiter for which there are not enough permits:
// readers do not keep a writer waiting for ever, nor writers a reader. Where there are enough, and the first waiter has
// been woken but has not come yet, others overtake it as they overtake the first waiter of a lock (lock/handoff.h). An
// admitted waiter wakes the next if there are enough permits for that as well: so one wake-up leads to each grant.
//
// A release, a renewal and all else about one lease take about as long among many holders as among few
// (dict/holder_list.h), and so does a refused attempt, most times (lock/permits_look.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// The terms of a request for permits. REQUIRES: 1 <= want <= total <= kAllPermits.
struct PermitsRequest {
  Request request;
  PermitsKind kind;
  std::uint32_t want;
  std::uint32_t total;  // of the entry; the latest request decides it
};

/// Takes permits if they can be had now. ok, locked, no_memory, too_large, timeout, busy, removed, system.
Code permits_try(Dictionary& dictionary, std::string_view key, const PermitsRequest& request, Lease& lease) noexcept;
/// One step of a wait: as permits_try. locked, deadlock: as lock_wait.
Code permits_wait(Dictionary& dictionary, std::string_view key, const PermitsRequest& request, const WaitStep& step,
                  Lease& lease) noexcept;
/// Gives back all permits of the lease but `count`, in one step. ok, not_owner, invalid (count), timeout, busy,
/// removed.
Code permits_keep(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t count) noexcept;

struct PermitsCount {
  std::uint32_t used = 0;  // by live processes
  std::uint32_t waiters = 0;
};
/// Counts used permits and waiters: 0 if there is no entry. ok, locked (the key has another live entry), timeout, busy,
/// removed.
Code count_permits(Dictionary& dictionary, std::string_view key, PermitsCount& count) noexcept;

}  // namespace holdfast
