// Leases: locks by name, as entries of a dictionary.
//
// A lock entry, once made, stays until its memory is needed: taking it is one store of its owner, releasing it another.
// Who holds it is proved by owner and fencing number together, so that a lease which expired or was taken over can
// neither release nor renew what is now somebody else's. A holder whose process is dead has lost the lock: the kernel
// is asked, outside the mutex, and the taker swaps out exactly the owner that was found dead.
//
// Waiters queue in order of arrival; lock/handoff.h says who gets a lock that comes free.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// ok, locked, no_memory, too_large, timeout, busy, removed (the dictionary was), system (no identity).
Code lock_try(Dictionary& dictionary, std::string_view key, const Claim& claim, Lease& lease) noexcept;

/// As lock_try; when locked, the waiter is queued, and `sleep` is the time (s) after which to look again. deadlock: it
/// would wait for ever (wait/deadlock.h); it is still queued.
Code lock_wait(Dictionary& dictionary, std::string_view key, const Claim& claim, Parker& parker, std::uint32_t waiter,
               Lease& lease, double& sleep) noexcept;

// The rest works for permits (lock/permits.h), too.

/// Ends a wait: leaves the queue, and hands on what was granted but not claimed. system, too, when that is done, but it
/// cannot be told whether one of those lives who hold what was waited for.
Code lock_leave(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t waiter) noexcept;

/// ok or not_owner (the lease is cleared); timeout, busy (it is not).
Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept;
/// ok, not_owner, timeout, busy.
Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept;
/// Which coroutine is taken for the holder from now on, 0: none. ok, not_owner, timeout, busy.
Code adopt(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t task) noexcept;
/// Seconds left, 0 for never: ok, not_owner.
Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept;

}  // namespace holdfast
