// Watchers wait for the end of a grant. They do not want the lock, and all of them continue together.
//
// A watcher waits until the grant that held the lock when the wait began has ended, because it was released, expired,
// deleted or flushed, or because its process died. Later grants do not matter, so a watcher never waits because a lock
// is busy.
//
// Watchers have a separate queue, and do not delay waiters, because a handoff ignores them. Each watcher is added while
// its grant holds the lock, so watchers of grants that have ended come first in the queue. The process that ends a
// grant removes up to kWokenAtOnce of them, in a separate section, and then wakes them. Each watcher that arrives or
// leaves removes and wakes up to kWokenAtOnce more. So no caller pays for a large number of watchers. If a dead or
// stopped watcher does not wake others, they notice the end at their next check (wait/parking_lot.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// Checks whether the watched grant has ended. Set `grant` to 0 for the first call. If the result is locked, `grant` is
/// set to the fencing token of the grant to wait for. For permits this is the token of the youngest holder record,
/// and all records up to that token must end. Returns ok (the grant has ended), locked (also if the key has an
/// ordinary value), timeout, busy, removed, system.
Code watch_try(Dictionary& dictionary, std::string_view key, std::uint64_t& grant) noexcept;
/// Takes one step of a wait. Returns the codes of watch_try(); locked and deadlock mean the same as in acquire_wait().
/// If the key has permits or a value, the watcher is not in a queue, and polls.
Code watch_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                std::uint64_t& grant) noexcept;

}  // namespace holdfast
