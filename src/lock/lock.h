// One attempt to take a lock, and the adaptive spin before a waiter goes to sleep.
#pragma once

#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

struct Attempt {
  std::string_view key;
  Contender contender;
  bool queues;  // if refused, the waiter takes a place in the queue

  /// The waiter that takes a place, or null.
  const Waiter* queued() const noexcept { return queues ? contender.waiter : nullptr; }
};

/// Puts a free lock under the key of the transaction. ok, no_memory, too_large, timeout. REQUIRES: there is nothing
/// under the key.
Code make_free_lock(Transaction& change) noexcept;

/// Attempts once to take the lock, in one section of the shard's mutex. `dead`: owners that were found dead; what they
/// hold counts as free. ok, locked, no_memory, too_large, timeout, busy, removed.
Code attempt_lock(Dictionary& dictionary, const Attempt& attempt, const TokenSet& dead, Lease& lease,
                  BlockedBy& blocked_by) noexcept;

/// What the gate keeps of the watched lock; null in a plain dictionary, and on damage.
const GateFields* gate_fields_of(const Watch& watch) noexcept;

/// The holder of the watched lock. Reads it without the mutex.
Blocker blocker_of_lock(const Watch& watch) noexcept;

/// When the grant of the watched lock ends (ms); kExpiryNever for never. Soon, if that is not known yet.
std::uint64_t end_of_lock(const Watch& watch) noexcept;

/// Whether spinning for short sections has recently paid off, or is to be tried again.
bool may_spin_for_short_section() noexcept;

/// Spins for a microsecond or two, for sections that are even shorter than a look at the kernel. Whatever the caller's
/// host, it stops others no longer than an attempt that has to wait for the mutex.
bool spin_for_short_section(Dictionary& dictionary, std::string_view key, Token self, const Request& request,
                            Lease& lease) noexcept;

/// Spins briefly for the lock, for about as long as it takes to be put to sleep and woken: where critical sections are
/// short, this saves both sides system calls. Spins only if the waiter stops no other task, and if spinning has
/// recently paid off. Returns whether the lock was taken.
bool spin_for_lock(Dictionary& dictionary, const Attempt& attempt, Lease& lease, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
