// Leases: locks by name, as entries of a dictionary.
//
// A lock entry, once made, stays until its memory is needed: taking it is one store of its owner, releasing it another.
// Who holds it is proved by owner and fencing number together, so that a lease which expired or was taken over can
// neither release nor renew what is now somebody else's. A holder whose process is dead has lost the lock: the kernel
// is asked, outside the mutex, and the taker swaps out exactly the owner that was found dead.
//
// Fairness: waiters queue in order of arrival, and a release wakes one of them. Others may be faster (which keeps short
// critical sections fast), but once the first has waited for kBargeNs, the release grants the lock to it: nobody else
// gets it unless that waiter fails to claim it within kClaimSeconds.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/token.h"
#include "dict/dictionary.h"
#include "lock/parking.h"

namespace holdfast {

inline constexpr std::uint64_t kBargeNs = 1'000'000;
inline constexpr double kClaimSeconds = 0.05;

struct Lease {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
};

/// ok, locked, no_memory, too_large, timeout, busy, removed (the dictionary was), system (no identity).
Code lock_try(Dictionary& dictionary, std::string_view key, double exptime, Lease& lease) noexcept;

/// As lock_try; when locked, the waiter is queued, and `pause` is the time (s) after which to look again.
Code lock_wait(Dictionary& dictionary, std::string_view key, double exptime, Parker& parker, std::uint32_t waiter,
               Lease& lease, double& pause) noexcept;
/// Ends a wait: leaves the queue, and hands on what was granted but not claimed.
Code lock_leave(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t waiter) noexcept;

/// ok or not_owner (the lease is cleared); timeout, busy (it is not).
Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept;
/// ok, not_owner, timeout, busy.
Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept;
/// Seconds left, 0 for never: ok, not_owner.
Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept;

}  // namespace holdfast
