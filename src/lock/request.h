// Request and Lease: the terms of a request and the proof of a grant, for locks, rwlocks and semaphores. This header
// also reports requests and grants to statistics (dict/statistics.h) and tracers (base/probe.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/token.h"
#include "dict/statistics_layout.h"
#include "dict/wait_queue.h"
#include "wait/task_id.h"

namespace holdfast {

class Dictionary;
class Parker;

/// The time within which a prompt waiter must claim the lock or permits that a release has granted to it.
inline constexpr double kClaimSeconds = static_cast<double>(kClaimNs) / 1e9;

/// The timeout of one attempt. Callers have their own timeouts, so an attempt should fail soon instead of blocking on a
/// mutex whose owner is stopped.
inline constexpr std::uint64_t kAttemptPatienceNs = 50'000'000;

/// The proof of a grant: its holder, and its fencing token.
struct Lease {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
};

/// The terms of a request. REQUIRES, for permits: 1 <= want <= total <= kAllPermits.
struct Request {
  double exptime = 0;
  std::uint32_t holder_task = 0;           // the task that becomes the holder; 0: none
  std::uint32_t task = 0;                  // the task that waits; 0: unknown
  bool fair = false;                       // overtakes no waiter, and is not overtaken
  double timeout = 0;                      // seconds after which it will stop waiting; 0: unknown
  HoldsLocks holds = HoldsLocks::nothing;  // what the waiting task may hold
  bool may_hold_it = false;                // whether a task that waits for itself counts as a deadlock
  bool tries = false;                      // its wait ends when another machine is found to have the lock
  bool waits_next = false;                 // a wait follows this attempt if it is refused
  bool blocks = false;                     // its thread blocks while it waits, so the first attempts may spin
  bool any_owner = false;                  // an upgrade: the lease may belong to another process
  HeldKind kind = HeldKind::lock;
  std::uint32_t want = 1;   // number of permits
  std::uint32_t total = 1;  // number of permits of the entry, as set by the latest request
};

/// Makes the request by which a reader of an rwlock becomes its writer. The request is fair, because no other reader
/// may get in while it waits.
inline Request upgrade_of(Request request) noexcept {
  request.kind = HeldKind::rwlock;
  request.want = kAllButOwn;
  request.total = kAllPermits;
  request.fair = true;
  return request;
}
inline bool is_upgrade(const Request& request) noexcept {
  return request.want == kAllButOwn && request.kind == HeldKind::rwlock;
}

/// A request for a key, with the process that makes it.
struct Contender {
  Token self;
  const Request& request;
  Waiter* waiter;  // null: the request does not wait. An attempt that queues the waiter sets Waiter::place
};

/// The waiter that takes a step of its wait.
struct WaitStep {
  Parker& parker;
  std::uint32_t waiter;
  double& sleep;  // out: seconds until the next step, if nothing wakes the waiter earlier
};

// --- statistics. REQUIRES: the thread holds no shmtx. ---

/// Counts the end of a wait that began at `arrival_ns`. `in_vain` says that the wait ended without success.
void count_wait(Dictionary& dictionary, std::string_view key, HeldKind kind, std::uint64_t arrival_ns,
                bool in_vain) noexcept;
/// Counts attempts that did not wait, and were refused because the key was held.
void count_refusals(Dictionary& dictionary, std::string_view key, HeldKind kind, std::uint64_t times) noexcept;
/// Counts a hold that has just ended.
void count_hold(Dictionary& dictionary, HeldKind kind, Since since) noexcept;

// --- probes. They run on the path of every lock. So each probe only loads a word in which tracers count themselves (a
// USDT semaphore), and computes its arguments only if this word is not 0. ---

#if HOLDFAST_PROBES

namespace trace_internal {

void acquire(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
void release(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;

}  // namespace trace_internal

// The kernel changes these words on behalf of a tracer. Each call must read them again; no stronger ordering is needed.
extern "C" unsigned short holdfast_acquire_semaphore __attribute__((visibility("hidden")));
extern "C" unsigned short holdfast_release_semaphore __attribute__((visibility("hidden")));

/// Reports that the lock or the permits were granted to this process.
inline void trace_acquire(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  if (holdfast_acquire_semaphore != 0) [[unlikely]]
    trace_internal::acquire(dictionary, key, lease);
}
/// Reports that the lock or the permits were given back.
inline void trace_release(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  if (holdfast_release_semaphore != 0) [[unlikely]]
    trace_internal::release(dictionary, key, lease);
}

#else

inline void trace_acquire(Dictionary&, std::string_view, const Lease&) noexcept {}
inline void trace_release(Dictionary&, std::string_view, const Lease&) noexcept {}

#endif

}  // namespace holdfast
