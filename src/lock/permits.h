// Counted permits: the basis of rwlocks and semaphores.
//
// A permits entry has a total, and a chain of holder records: each says which process has how many permits. A semaphore
// gives out one or more at a time. A rwlock has kAllPermits: a reader takes one, a writer all of them. A writer that
// keeps one of them becomes a reader without ever letting go. Owner and fencing number prove a holder record, as they
// prove a lock's lease. A dead process has lost its permits as soon as another one needs them.
//
// Order: waiters queue by their arrival, and no request overtakes a waiter for which there are not enough permits:
// readers do not keep a writer waiting forever, nor writers a reader. If there are enough, and the first waiter has
// been woken but has not come, others overtake it as they overtake the first waiter of a lock (lock/handoff.h). An
// admitted waiter wakes the next if there are enough permits for that as well: so one wake-up leads to each grant.
//
// A release, a renewal and any other operation on one lease take about as long among many holders as among few
// (dict/holder_list.h). So does a refused attempt, usually: with many holders it names only some of them. When a check
// is due, one attempt among all processes checks all holders, a part at a time; the mutex is released in between. It
// removes the records that do not count and finds the owners to ask the kernel about.
//
// So a dead holder, or a lease that has ended, is found by the attempts that need its permits. With n holders an end is
// found up to n / 1024 ms late and a death up to n / 64 ms late; both take at most 1 s, plus the time until the next
// attempt.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// Attempts once to take permits, in one section of the shard's mutex, or in several if there are many holders. A
/// refused waiter gets its position in the queue. The codes of attempt_lock().
Code attempt_permits(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     Lease& lease, BlockedBy& blocked_by) noexcept;
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

/// Checks all holders of the key; `dead`: owners that were found dead. Names the owners of others in `blocked_by`; if
/// there are too many, a different part of them each time. Returns whether it removed any record. REQUIRES: the caller
/// has claimed the check (PermitsEntry::claim_check) and does not hold the shard's mutex.
bool check_holders(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
