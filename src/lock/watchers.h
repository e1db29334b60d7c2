// Watchers wait for the end of a grant. They do not want the lock, and all of them continue together.
//
// A watcher waits for the end of the grant that held the lock when the wait began. The grant ends when it is released,
// expires, is deleted or flushed, or when its process dies. Later grants do not matter, so a busy lock does not prolong
// the wait.
//
// Watchers have a separate queue, and do not delay waiters, because a handoff ignores them. Each watcher is added while
// its grant holds the lock, so watchers of grants that have ended come first in the queue. The process that ends a
// grant removes up to kWokenAtOnce of them, in a separate section, and then wakes them. Each watcher that arrives or
// leaves removes and wakes up to kWokenAtOnce more, so no single call wakes a large number of watchers. If a watcher
// dies or is stopped before it wakes others, they notice the end at their next check (wait/parking_lot.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// Checks whether the watched grant has ended. Set `grant` to 0 for the first call. If the result is locked, `grant` is
/// set to the fencing token of the grant to wait for. For permits, this is the token of the youngest holder record, and
/// all records up to that token must end. Returns ok (the grant has ended), locked (also if the key has an ordinary
/// value), timeout, busy, removed or system.
Code watch_try(Dictionary& dictionary, std::string_view key, std::uint64_t& grant) noexcept;
/// Takes one step of a wait. Returns the codes of watch_try(); locked and deadlock mean the same as in acquire_wait().
/// If the key has permits or a value, the watcher is not in a queue, and polls.
Code watch_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                std::uint64_t& grant) noexcept;

}  // namespace holdfast
