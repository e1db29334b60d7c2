// Watchers: waiters for the end of a grant. They do not want the lock, and all of them continue together.
//
// A watcher waits until the grant that held the lock when its wait began has ended: released, expired, of a dead
// process, deleted, flushed. Later grants do not matter, so it never waits behind a busy lock.
//
// Watchers have a separate queue and delay no waiter: a handoff ignores them. Each is added while the grant that it
// watches holds the lock, so the watchers of ended grants are first. The end of a grant removes kWokenAtOnce of these,
// in a separate section, and posts to them afterwards. Each watcher that comes, or leaves, removes as many more, so no
// caller pays for a crowd. If a dead or stopped watcher does not wake others, they find out by themselves, because they
// check (wait/parking_lot.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// Checks whether the watched grant has ended. `grant`: pass 0 to begin with; locked sets it to the fencing number of
/// the grant to wait for. For permits this is the number of the youngest holder record; all records up to it have to
/// end. ok (it has ended), locked (also by an ordinary value), timeout, busy, removed, system.
Code watch_try(Dictionary& dictionary, std::string_view key, std::uint64_t& grant) noexcept;
/// One step of a wait; codes as for watch_try(). locked, deadlock: as in acquire_wait(), but for permits and for a
/// value the watcher has no position in a queue, and polls.
Code watch_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                std::uint64_t& grant) noexcept;

}  // namespace holdfast
