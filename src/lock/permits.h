// Counted permits are the basis of rwlocks and semaphores.
//
// A permits entry has a total, and a chain of holder records; each record says which process has how many permits. A
// semaphore grants one or more permits at a time. A rwlock has kAllPermits permits: a reader takes one, and a writer
// takes all. A writer that keeps one permit becomes a reader without ever releasing the rwlock. Owner and fencing
// number prove a holder record, as they prove a lock's lease. A dead process loses its permits as soon as another
// process needs them.
//
// Waiters queue in order of arrival, and no request overtakes a waiter for which there are not enough permits. So
// readers do not keep a writer waiting forever, and writers do not keep a reader waiting forever. If there are enough,
// and the first waiter has been woken but has not come, others overtake it as they overtake the first waiter of a lock
// (lock/handoff.h). An admitted waiter wakes the next waiter if there are enough permits for that waiter as well, so
// each grant takes one wake-up.
//
// A release, a renewal or any other operation on one lease takes about as long among many holders as among few
// (dict/holder_list.h). A refused attempt usually does too, because with many holders it names only some of them.
//
// When a check is due, one attempt among all processes checks all holders, some at a time, and releases the mutex in
// between. This attempt removes the records that do not count and finds the owners to ask the kernel about. So a dead
// holder, or a lease that has ended, is found by the attempts that need its permits. With n holders an end is found up
// to n / 1024 ms late, and a death up to n / 64 ms late. Neither is found more than 1 s late, plus the time until the
// next attempt.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// Attempts once to take permits, in one section of the shard's mutex, or in several if there are many holders. A
/// refused waiter gets its position in the queue. Returns the codes of attempt_lock().
Code attempt_permits(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     Lease& lease, BlockedBy& blocked_by) noexcept;
/// Gives back all but `count` permits of the lease, in one step. Returns ok, not_owner, invalid (count), timeout, busy,
/// removed.
Code permits_keep(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t count) noexcept;

struct PermitsCount {
  std::uint32_t used = 0;  // by live processes
  std::uint32_t waiters = 0;
};
/// Counts used permits and waiters; the counts are 0 if there is no entry. Returns ok, locked (the key has a live entry
/// of another type), timeout, busy, removed.
Code count_permits(Dictionary& dictionary, std::string_view key, PermitsCount& count) noexcept;

/// Checks all holders of the key. `dead` has the owners that were found dead. Names the owners of the other holders in
/// `blocked_by`; if there are too many, names different owners each time. Returns whether the check removed any record.
/// REQUIRES: the caller has claimed the check (PermitsEntry::claim_check) and does not hold the shard's mutex.
bool check_holders(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
