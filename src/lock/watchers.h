// Those who wait for the end of a grant, and do not want the lock: they all go on together.
//
// A watcher waits until the grant that held the lock when its wait began has ended: released, expired, of a dead
// process, deleted, flushed. Who holds the lock after that is nothing to it, so it never waits behind a busy lock.
//
// Watchers stand in a queue of their own, and so in nobody's way: they are not looked at when a lock is handed on.
// Each is added while the grant that it watches holds the lock, so those of grants that have ended stand first. Who
// ends a grant takes out kCalledAtOnce of these, in a section of its own, and rings for them after it; each that comes,
// or leaves, calls as many more. So a crowd holds nobody up, and they all are told by each other. What a dead or
// stopped one does not pass on, its neighbours find by themselves, as they look (wait/parking_lot.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"
#include "wait/parking_lot.h"

namespace holdfast {

inline constexpr std::size_t kCalledAtOnce = 64;

/// Whether nobody holds what is under the key. `grant`: 0 to begin with; the fencing number of the grant that is waited
/// for, when it is locked. Permits: that of the youngest hold; all up to that have to end.
/// ok (it has ended), locked (also by an ordinary value), timeout, busy, removed, system.
Code watch_try(Dictionary& dictionary, std::string_view key, std::uint64_t& grant) noexcept;
/// As watch_try; when locked, the waiter is queued, and `sleep` is the time (s) after which to look again. Of permits,
/// and of a value, it has no place and polls. deadlock: as lock_wait.
Code watch_wait(Dictionary& dictionary, std::string_view key, const Claim& claim, Parker& parker, std::uint32_t waiter,
                std::uint64_t& grant, double& sleep) noexcept;

/// Whether some wait for a grant that has ended. REQUIRES: the shard's mutex.
inline bool has_watchers_to_call(const LockEntry& lock) noexcept {
  if (!lock.has_watchers()) [[likely]]
    return false;
  const bool held = lock.fields.owner.load(kRelaxed) != kNobody;
  return lock.watchers().is_first_of_another(held ? lock.fields.sequence.load(kRelaxed) : 0);
}

/// Calls some of them. REQUIRES: the caller does not hold a shmtx.
void call_watchers(Dictionary& dictionary, std::string_view key) noexcept;

/// Tells all whom the end of a grant has chosen. After the shard's mutex was given back.
inline void tell(Dictionary& dictionary, std::string_view key, const Chosen& chosen) noexcept {
  wake(dictionary.world(), chosen);
  if (chosen.watchers) [[unlikely]]
    call_watchers(dictionary, key);
}

}  // namespace holdfast
