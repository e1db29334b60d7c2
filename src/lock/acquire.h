// Takes locks, and the permits of rwlocks and semaphores. Every request makes the same series of attempts.
//
// A request makes at most three attempts before it sleeps:
//
// 1. free: takes a free lock by one compare-and-swap (lock/fast_path.h). The attempt uses the mutex for permits, and
//    for locks whose word does not contain the answer: the key has no lock, the holder's lease has ended, or the holder
//    may be dead.
// 2. spin: polls a held lock without the mutex, and takes the lock if it becomes free soon (sync/spin.h). If others
//    already wait for the lock, an attempt with the mutex decides. Permits are not polled, because holders usually keep
//    permits for longer than a spin.
// 3. queued: takes the mutex, then takes what has become free in the meantime, or else puts the waiter into the queue.
//    No release can get lost between this attempt and the sleep.
//
// A woken waiter continues at attempt 2. An attempt with the mutex names the processes that blocked it, and is repeated
// only if one of these processes is found dead (lock/wait_step.h).
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

/// Takes the lock or permits if they are available now. Returns ok, locked, no_memory, too_large, timeout, busy,
/// removed (the dictionary was removed), system (this process has no identity), elsewhere, or unsupported (permits
/// behind a gate).
inline Code acquire_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept;

/// Takes one step of a wait. Returns the codes of acquire_try(). After locked, the waiter is queued: sleep for at most
/// `sleep` seconds, then call again. After deadlock, the waiter would wait forever (wait/deadlock.h), and is still
/// queued. After invalid, there is no such waiter.
Code acquire_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                  Lease& lease) noexcept;

// A request from upgrade_of() makes a reader of an rwlock the writer. `lease` is then the reader's lease, which does
// not change. Such a request can also return not_owner, or unsupported if the lease holds a lock or permits of a
// semaphore. Any call returns deadlock if another reader is already waiting to become the writer. In this case, the
// waiter is not queued.

/// Takes the lock or permits, and blocks the calling thread for up to `timeout` seconds. A timeout of 0 or less does
/// not block, and a timeout of more than kLongest has no limit.
///
/// Returns the codes of acquire_try() and acquire_wait(). After the timeout, returns the code of the last attempt,
/// locked or timeout. Behind a gate it may also return unavailable, which means that nothing can be granted, or
/// elsewhere, which means that another machine has the lock. Even with a timeout of 0, the call asks the gate for up to
/// a second. On deadlock, `cycle` receives the keys of the cycle of waits.
///
/// Request::timeout and Request::tries are ignored. REQUIRES: Request::waits_next says whether this call waits. Throws
/// std::bad_alloc, and std::runtime_error if the process has too many waiters. If it throws, nothing is taken.
// The first attempt needs no parker (the object on which a waiting thread sleeps). If it fails, the thread makes a
// BlockingWaiter (lock/blocking_waiter.h). A signal, a spurious wake-up, or a process that enters the world at the
// same time does not end a wait.
inline Code acquire_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout,
                             Lease& lease, std::vector<std::string>& cycle);
/// Completes acquire_blocking() after acquire_try() has returned `code`, which is not ok.
Code go_on_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Code code,
                    Lease& lease, std::vector<std::string>& cycle);

/// Takes the slow path of acquire_try(). `fast` is the result of the fast path.
Code acquire_slowly(Dictionary& dictionary, std::string_view key, const Request& request, Fast fast,
                    Lease& lease) noexcept;

/// Refuses a request that does not block, after the fast path has found the lock held and stored the holder in the
/// lease. Returns false and leaves the lease unchanged if the slow path must decide, because the holder may be dead, or
/// because this process will release a lock late. `counts` says that the caller will not wait.
bool refuse_at_once(Dictionary& dictionary, std::string_view key, bool counts, Lease& lease) noexcept;

/// Completes an attempt at a lock for which the fast path has returned `fast`, which is not `taken`. `make() ->
/// Request` is inlined, so a refusal does not make the whole request.
template <class Make>
[[gnu::always_inline]] inline Code go_on_trying(Dictionary& dictionary, std::string_view key, Make&& make, Fast fast,
                                                Lease& lease) noexcept {
  if (fast == Fast::held && !make().blocks && refuse_at_once(dictionary, key, !make().waits_next, lease))
    return Code::locked;
  return acquire_slowly(dictionary, key, make(), fast, lease);
}

/// Does the same as acquire_try() for a lock. Calls `make() -> Request` only if the slow path needs the request.
template <class Make>
inline Code lock_try(Dictionary& dictionary, std::string_view key, double exptime, std::uint32_t holder_task, bool fair,
                     Lease& lease, Make&& make) noexcept {
  const Token self = dictionary.world().known_token();
  if (self == kNobody) [[unlikely]]
    return acquire_slowly(dictionary, key, make(), Fast::unclear, lease);
  const Fast fast = try_lock_fast(dictionary, key, self, exptime, holder_task, fair, lease);
  if (fast == Fast::taken) [[likely]]
    return Code::ok;
  return go_on_trying(dictionary, key, make, fast, lease);
}

/// Does the same as acquire_try() for a lock, and remembers its place if the first attempt took it.
inline Code lock_and_bind(Dictionary& dictionary, std::string_view key, const Request& request,
                          BoundLock& bound) noexcept {
  bound = {};
  const Token self = dictionary.world().known_token();
  const Fast fast =
      self != kNobody ? try_lock_and_bind(dictionary, key, {self, request, nullptr}, bound) : Fast::unclear;
  if (fast == Fast::taken) return Code::ok;
  return go_on_trying(
      dictionary, key, [&]() -> const Request& { return request; }, fast, bound.lease);
}

inline Code acquire_try(Dictionary& dictionary, std::string_view key, const Request& request, Lease& lease) noexcept {
  if (request.kind != HeldKind::lock) return acquire_slowly(dictionary, key, request, Fast::unclear, lease);
  return lock_try(dictionary, key, request.exptime, request.holder_task, request.fair, lease, [&] { return request; });
}

inline Code acquire_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout,
                             Lease& lease, std::vector<std::string>& cycle) {
  const Code code = acquire_try(dictionary, key, request, lease);
  return code == Code::ok ? code : go_on_blocking(dictionary, key, request, timeout, code, lease, cycle);
}

}  // namespace holdfast
