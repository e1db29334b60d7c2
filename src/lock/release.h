// Locks by name, as entries of a dictionary; a holder has a lease.
//
// A lock entry, once made, stays until its memory is needed: taking the lock is one store of its owner, releasing it
// another. Owner and fencing number together prove a lease, so a lease that expired or was taken over can neither
// release nor renew what another process holds now. A dead process has lost its locks: the kernel is asked, outside the
// mutex, and the taker swaps out exactly the owner that was found dead.
//
// Waiters queue in order of arrival; lock/handoff.h says which of them gets a lock that comes free.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "lock/quiet.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast {

/// Takes the lock if it can be had now. ok, locked, no_memory, too_large, timeout, busy, removed (the dictionary was),
/// system (no identity).
inline Code lock_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept;

/// One step of a wait: as lock_try. locked: the waiter is queued; sleep, for `sleep` seconds at most, then call again.
/// deadlock: it would wait for ever (wait/deadlock.h); it is still queued.
Code lock_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
               Lease& lease) noexcept;

// The following calls are for locks and for permits (lock/permits.h).

/// Ends a wait: leaves the queue, and hands on what was granted but not claimed. system: that is done, but it is
/// unknown of one of the holders whether it lives.
Code lock_leave(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t waiter) noexcept;

/// Releases the lease. ok, not_owner, removed (the lease is cleared); timeout, busy, system (it is not).
inline Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// The same for a caller that does not come again: clears the lease, unless there is no memory. What is refused now is
/// given back later (lock/late_release.h).
Code unlock_for_certain(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept;
/// Releases a lease of any process. ok, not_owner, timeout, busy, removed, system.
Code break_lease(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
/// Gives the lease another end. ok, not_owner, not_found, timeout, busy, removed, system.
Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept;
/// Makes `task` the holder from now on; 0: none. ok, not_owner, timeout, busy, removed, system.
Code adopt(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t task) noexcept;
/// The seconds left; 0: the lease never ends. ok, not_owner, removed, system.
Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept;

/// The two, where the quiet way is not enough. `quiet`: what that has come to.
Code lock_try_slowly(Dictionary& dictionary, std::string_view key, const Request& request, Quiet quiet,
                     Lease& lease) noexcept;
Code unlock_slowly(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept;

/// As lock_try(), for a request that `make() -> Request` makes where it is needed.
template <class Make>
inline Code lock_try(Dictionary& dictionary, std::string_view key, double exptime, std::uint32_t holder_task,
                     Lease& lease, Make&& make) noexcept {
  const Token self = dictionary.world().known_token();
  if (self == kNobody) [[unlikely]]
    return lock_try_slowly(dictionary, key, make(), Quiet::unclear, lease);
  const Quiet quiet = lock_quietly(dictionary, key, self, exptime, holder_task, lease);
  if (quiet == Quiet::taken) [[likely]]
    return Code::ok;
  return lock_try_slowly(dictionary, key, make(), quiet, lease);
}

inline Code lock_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept {
  return lock_try(dictionary, key, request.exptime, request.holder_task, lease, [&] { return request; });
}

inline Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept {
  if (lease.owner == dictionary.world().known_token() && lease.owner != kNobody &&
      unlock_quietly(dictionary, key, lease)) [[likely]] {
    lease = {};
    return Code::ok;
  }
  return unlock_slowly(dictionary, key, lease, patience_ns);
}

}  // namespace holdfast
