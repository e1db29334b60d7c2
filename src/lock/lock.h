// Named locks, which are entries of a dictionary. This header declares an attempt to take a lock, and what the lock's
// waiters watch.
//
// Once created, a lock entry stays until its memory is needed. The owner takes the lock with one store and releases it
// with another. Owner and fencing token together prove a lease, so a lease that has expired or was taken over cannot
// release or renew the grant of another process. A dead process loses its locks: a process that wants such a lock asks
// the kernel about the owner, outside the mutex, and then replaces exactly this owner.
//
// Waiters queue in order of arrival; lock/handoff.h says which waiter gets a lock that becomes free.
#pragma once

#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// Stores a free lock under the key of the transaction. Returns ok, no_memory, too_large or timeout. REQUIRES: the key
/// has no entry.
Code make_free_lock(Transaction& change) noexcept;

/// Attempts once to take the lock, in one section of the shard's mutex. A refused waiter gets its position in the
/// queue. `dead` contains owners that were found dead; everything that they hold counts as free. Returns ok, locked,
/// no_memory, too_large, timeout, busy or removed.
Code attempt_lock(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                  Lease& lease, BlockedBy& blocked_by) noexcept;

/// Returns ok if the contender may now take the free lock, or replace it by permits. First ends a grant that has
/// expired or is reserved for the contender. Otherwise returns locked, queues the contender's waiter, and fills
/// `blocked_by`. Wake `chosen` after releasing the mutex. REQUIRES: the shard's mutex is held.
Code clear_lock(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
                BlockedBy& blocked_by, Chosen& chosen) noexcept;

/// Returns the gate's fields in the watched lock, or null if the dictionary is plain or the lock is damaged.
const GateFields* gate_fields_of(const Watch& watch) noexcept;

/// Returns the holder of the watched lock. Reads it without the mutex.
Blocker blocker_of_lock(const Watch& watch) noexcept;

/// Returns when the grant of the watched lock ends (ms), or kExpiryNever. If the end is unknown, returns a time shortly
/// after now.
std::uint64_t end_of_lock(const Watch& watch) noexcept;

}  // namespace holdfast
