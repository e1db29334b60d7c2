// Counted permits, which are the basis of rwlocks and semaphores.
//
// A permits entry has a total, and a chain of holder records. Each record says how many permits a process has. A
// semaphore grants one or more permits at a time. An rwlock has kAllPermits permits: a reader takes one, and a writer
// takes all. A writer that gives back all permits but one becomes a reader without releasing the rwlock in between.
//
// If there is only one reader, it can become the writer by one store to its record. It keeps its fencing token, which
// is larger than the tokens of all earlier writers, because nobody could write while it read.
//
// The owner and the fencing token prove a holder record, just as they prove a lease of a lock. A dead process loses
// its permits as soon as another process needs them.
//
// Waiters queue in order of arrival. If there are not enough permits for the first waiter, no request overtakes it. So
// neither readers nor writers wait forever. If there are enough, but the first waiter has not responded to its wake-up
// yet, other requests may overtake it. The rules are the same as for locks (lock/handoff.h). A waiter that gets permits
// wakes the next waiter if there are enough for that waiter as well. So each grant costs one wake-up.
//
// A release, a renewal or any other operation on one lease takes about as long among many holders as among few
// (dict/holder_list.h). The same is usually true of a refused attempt, because it names only some of many holders.
//
// When a check of all holders is due, one attempt in one process makes it. The attempt checks some holders at a time,
// and releases the mutex in between. It removes the records that are no longer valid, and finds the owners about which
// the kernel must be asked. So attempts that need permits find dead holders, and leases that have ended. With n
// holders, an ended lease is found at most n / 1024 ms late, and a death at most n / 64 ms late. Neither takes longer
// than 1 s, plus the time until the next attempt.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// The state of a check of many holders, which a refused attempt makes.
enum class CheckState { none, due, done };

/// Attempts once to take permits, in one section of the shard's mutex, or in several if there are many holders. A
/// refused waiter gets its position in the queue. Returns the codes of attempt_lock().
Code attempt_permits(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     Lease& lease, BlockedBy& blocked_by) noexcept;
/// Attempts once to turn the reader that has the lease of an rwlock into the writer. The lease stays as it is. A
/// refused waiter gets its position before all other waiters.
///
/// Returns the codes of attempt_permits(), not_owner or deadlock. The code deadlock means that another reader is
/// already waiting to become the writer, so this reader was not queued. The code no_memory means that there is no room
/// in the queue. The code unsupported is also returned if the lease holds a lock or permits of a semaphore.
Code attempt_upgrade(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     const Lease& lease, BlockedBy& blocked_by) noexcept;
/// Returns ok if nobody has any of these permits, and it is the contender's turn. The contender, which requests a
/// different kind, may then replace the permits. Otherwise returns locked, and queues the contender's waiter as a
/// waiter for all permits. Sets `long_check` to due if check_holders() must follow. REQUIRES: the shard's mutex is
/// held, and the transaction found permits.
Code clear_permits(Transaction& change, const Contender& contender, const TokenSet& dead, BlockedBy& blocked_by,
                   CheckState& long_check, Chosen& chosen) noexcept;
/// Gives back all but `count` permits of the lease, in one step. Returns ok, not_owner, invalid (because of `count`),
/// timeout, busy or removed.
Code permits_keep(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t count) noexcept;

struct PermitsCount {
  std::uint32_t used = 0;  // permits of live processes
  std::uint32_t waiters = 0;
};
/// Counts the used permits and the waiters; both are 0 if there is no entry. Returns ok, locked (the key has a live
/// entry of another type), timeout, busy or removed.
Code count_permits(Dictionary& dictionary, std::string_view key, PermitsCount& count) noexcept;

/// Checks all holders of the key. `dead` contains owners that were found dead. Names the owners of the other holders in
/// `blocked_by`; if there are too many owners, names different owners each time. Returns whether the check has removed
/// any record. REQUIRES: the caller has claimed the check (PermitsEntry::claim_check) and does not hold the shard's
/// mutex.
bool check_holders(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
