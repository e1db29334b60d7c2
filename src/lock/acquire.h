// Takes locks, and permits of rwlocks and semaphores: one request, one ladder.
//
// A request makes at most three attempts before it sleeps:
//
// 1. free: by one compare-and-swap (lock/fast_path.h). Where the lock's word cannot tell, and for permits, the attempt
//    goes by the mutex: the key has no lock yet, or its holder's lease is over, or its holder may be dead.
// 2. spin: polls a lock that is held, without the mutex, and takes it if it comes free soon (sync/spin.h). If others
//    wait for the lock by then, the mutex decides. Permits are not polled: their holders stay for longer than a spin.
// 3. queued: with the mutex. Takes what has come free in the meantime, else the waiter gets its place in the queue. No
//    release falls between this attempt and the sleep.
//
// A waiter that was woken goes on at 2. An attempt with the mutex names the processes in its way. Only if one of them
// is found dead, it is repeated (lock/wait_step.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/fast_path.h"
#include "lock/request.h"
#include "world/world.h"

namespace holdfast {

/// Takes what is wanted if it is to be had now. ok, locked, no_memory, too_large, timeout, busy, removed (the
/// dictionary was), system (no identity), elsewhere, unsupported (permits behind a gate).
inline Code acquire_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept;

/// One step of a wait: as acquire_try. locked: the waiter is queued; sleep, for `sleep` seconds at most, then call
/// again. deadlock: it would wait for ever (wait/deadlock.h); it is still queued. invalid: there is no such waiter.
Code acquire_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                  Lease& lease) noexcept;

/// Stops the calling thread for up to `timeout` seconds; 0 or less: not at all; more than kLongest: without end. The
/// codes of the two above; locked, timeout: as of the last attempt, when the time was over. Behind a gate also
/// unavailable: nothing can be granted; and where the caller does not wait, the gate is asked all the same, for up to a
/// second: elsewhere, if another machine has the lock. deadlock: `cycle` has the keys of the cycle of waits.
/// Request::timeout and Request::tries are ignored. REQUIRES: Request::waits_next says whether it waits. Throws
/// std::bad_alloc, and std::runtime_error where the process has too many waiters; nothing is taken then.
// The first attempt needs nothing. Only if it fails, the thread gets a parker: on its own stack, and for this wait
// alone. So threads share nothing here, a thread that ends leaves nothing behind, and a forked child inherits nothing.
// Signals, wake-ups without a cause and processes that enter the world at the same time end no wait.
inline Code acquire_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout,
                             Lease& lease, std::vector<std::string>& cycle);
/// What follows in acquire_blocking() where acquire_try() has given `code`, and that is not ok.
Code go_on_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Code code,
                    Lease& lease, std::vector<std::string>& cycle);

/// The slow path of acquire_try(). `fast`: the result of the fast path.
Code acquire_slowly(Dictionary& dictionary, std::string_view key, const Request& request, Fast fast,
                    Lease& lease) noexcept;

/// As acquire_try(), for a request for a lock that `make() -> Request` makes where it is needed.
template <class Make>
inline Code lock_try(Dictionary& dictionary, std::string_view key, double exptime, std::uint32_t holder_task,
                     Lease& lease, Make&& make) noexcept {
  const Token self = dictionary.world().known_token();
  if (self == kNobody) [[unlikely]]
    return acquire_slowly(dictionary, key, make(), Fast::unclear, lease);
  const Fast fast = try_lock_fast(dictionary, key, self, exptime, holder_task, lease);
  if (fast == Fast::taken) [[likely]]
    return Code::ok;
  return acquire_slowly(dictionary, key, make(), fast, lease);
}

inline Code acquire_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept {
  if (request.kind != HeldKind::lock) return acquire_slowly(dictionary, key, request, Fast::unclear, lease);
  return lock_try(dictionary, key, request.exptime, request.holder_task, lease, [&] { return request; });
}

inline Code acquire_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout,
                             Lease& lease, std::vector<std::string>& cycle) {
  const Code code = acquire_try(dictionary, key, request, lease);
  return code == Code::ok ? code : go_on_blocking(dictionary, key, request, timeout, code, lease, cycle);
}

}  // namespace holdfast
