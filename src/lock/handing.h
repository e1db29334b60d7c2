// How a lock goes from one to the next (lock/turns.h says to whom). With the shard's mutex held: who is chosen is woken
// after it.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/wait_queue.h"
#include "lock/lease.h"
#include "lock/lock_entry.h"
#include "lock/turns.h"
#include "lock/waiting.h"

namespace holdfast {

class World;

/// Somebody who wants a lock.
struct Contender {
  Token self;
  Claim claim;
  const Waiter* waiter;  // null: nobody waits
};

/// Of the waiters, as of now. `fair`: for somebody who passes nobody, so that nobody stands aside.
Turn turn_of(const LockEntry& lock, World& world, bool fair) noexcept;

/// REQUIRES, for these: nobody holds the lock.

/// Lets the first waiter know, and grants the lock to it if nobody may pass it any more; also lets the first one know
/// that stands aside. Gives whom to wake, and whether there are watchers.
Chosen offer(const LockEntry& lock, World& world) noexcept;
/// Whether the contender may have it now. If not, it has been granted to the first waiter, and `chosen` is to be woken.
bool take_turn(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
               Chosen& chosen) noexcept;
/// Counts that one who is not waiting passes the first waiter, if there is one. False, with nothing done, if he must
/// not.
bool pass_first(const LockEntry& lock, const Head& first, bool fair) noexcept;
/// Ends what a grant to a waiter was that did not come for it, or any other.
void end_grant(const LockEntry& lock) noexcept;
Lease take(const LockEntry& lock, World& world, const Contender& contender) noexcept;

/// Whether a release granted the lock to this very waiter, who has not claimed it yet.
bool is_reserved_for(const LockEntry& lock, const Waiter* waiter) noexcept;
/// REQUIRES: it is reserved for the contender's waiter.
Lease claim_reserved(const LockEntry& lock, World& world, const Contender& contender) noexcept;

}  // namespace holdfast
