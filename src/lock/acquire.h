// Takes locks, and permits of rwlocks and semaphores: one request, one ladder of attempts.
//
// A request makes at most three attempts before it sleeps:
//
// 1. free: by one compare-and-swap (lock/fast_path.h). For permits, or if the lock's word is not enough, the attempt
//    uses the mutex: the key has no lock, or its holder's lease is over, or its holder may be dead.
// 2. spin: polls a held lock without the mutex, and takes it if it becomes free soon (sync/spin.h). If others wait for
//    the lock by then, the mutex decides. Permits are not polled: their holders stay for longer than a spin.
// 3. queued: with the mutex. Takes what has become free in the meantime, else puts the waiter into the queue. No
//    release falls between this attempt and the sleep.
//
// A waiter that was woken continues at 2. An attempt with the mutex names the processes in its way. It is repeated only
// if one of them is found dead (lock/wait_step.h).
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

/// Takes the lock or permits if they are available now. ok, locked, no_memory, too_large, timeout, busy, removed (the
/// dictionary was), system (no identity), elsewhere, unsupported (permits behind a gate).
inline Code acquire_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept;

/// One step of a wait; codes as for acquire_try(). locked: the waiter is queued; sleep for `sleep` seconds at most,
/// then call again. deadlock: it would wait forever (wait/deadlock.h); it is still queued. invalid: there is no such
/// waiter.
Code acquire_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                  Lease& lease) noexcept;

/// Blocks the calling thread for up to `timeout` seconds; 0 or less: does not block; more than kLongest: no limit.
///
/// Codes as for the two calls above. locked, timeout: the code of the last attempt when the time was over. Behind a
/// gate also unavailable: nothing can be granted. Even for a caller that does not wait, the gate is asked, for up to a
/// second: elsewhere, if another machine has the lock. deadlock: `cycle` has the keys of the cycle of waits.
///
/// Request::timeout and Request::tries are ignored. REQUIRES: Request::waits_next says whether it waits. Throws
/// std::bad_alloc, and std::runtime_error if the process has too many waiters; then nothing is taken.
//
// The first attempt needs nothing. Only if it fails, the thread gets a parker, on its own stack and only for this wait.
// So threads share nothing here, a thread that ends leaves nothing behind, and a forked child inherits nothing.
// Signals, spurious wake-ups and processes that enter the world at the same time end no wait.
inline Code acquire_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout,
                             Lease& lease, std::vector<std::string>& cycle);
/// The rest of acquire_blocking() when acquire_try() has returned `code`, which is not ok.
Code go_on_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Code code,
                    Lease& lease, std::vector<std::string>& cycle);

/// The slow path of acquire_try(). `fast`: the result of the fast path.
Code acquire_slowly(Dictionary& dictionary, std::string_view key, const Request& request, Fast fast,
                    Lease& lease) noexcept;

/// The same as acquire_try(), for a lock. `make() -> Request` makes the request only if it is needed.
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
