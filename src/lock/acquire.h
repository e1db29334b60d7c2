// An attempt to take a lock, and a short while of looking out for one before the waiter goes to sleep.
#pragma once

#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

struct Attempt {
  std::string_view key;
  Contender contender;
  bool queues;  // the waiter takes a place in the queue if it has to
};

/// One attempt, with the shard's mutex held. `dead`: owners that were found dead, who count as nobody.
/// ok, locked, no_memory, too_large, timeout, busy, removed.
Code attempt_lock(Dictionary& dictionary, const Attempt& attempt, const TokenSet& dead, Lease& lease,
                  BlockedBy& blocked_by) noexcept;

/// Who holds the lock that is watched.
Blocker blocker_of_lock(const Watch& watch) noexcept;

/// Looks out for the lock for about as long as it takes to be put to sleep and woken: where critical sections are
/// short, this saves both sides system calls. Only where the waiter stops no other coroutine, and where it has been
/// worth while of late. Whether the lock was taken.
bool spin_for_lock(Dictionary& dictionary, const Attempt& attempt, Lease& lease, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
