// Ends or changes grants of locks and permits (unlock, break, renew, adopt), and ends waits for them (leave). Also
// makes late releases.
//
// Late releases are leases of this process that could not be given back, mostly because a process was stopped while it
// held the shard's mutex. Late releases are for callers that will not retry (holdfast_unlock_for_certain). A thread
// retries until each lease is given back or lost, and then ends. If the thread cannot be started, the next call that
// finds a lock or permits held retries the late releases. A forked child inherits the list of its parent, and drops
// each lease at the first attempt, which is refused with not_owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>

#include "base/atomic.h"
#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/fast_path.h"
#include "lock/request.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast {

/// Ends a wait: removes the waiter from the queue, and passes on a grant that was reserved for it. After system, the
/// wait has ended, but it is unknown whether one of the holders is alive.
Code leave_queue(Dictionary& dictionary, std::string_view key, Parker& parker, std::uint32_t waiter) noexcept;

/// Releases the lease. Clears the lease if the result is ok, not_owner or removed, but not if it is timeout, busy or
/// system.
inline Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Releases the lease for a caller that will not retry. Clears the lease, unless there is no memory. If the release is
/// refused now, it is retried later (LateReleases).
Code unlock_for_certain(Dictionary& dictionary, std::string_view key, Lease& lease) noexcept;
/// Releases a lease of any process. Returns ok, not_owner, timeout, busy, removed or system.
Code break_lease(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
/// Changes the time at which the lease ends. Returns ok, not_owner, not_found, timeout, busy, removed or system.
Code renew(Dictionary& dictionary, std::string_view key, const Lease& lease, double exptime) noexcept;
/// Makes `task` the holder; 0 means no task. Returns ok, not_owner, timeout, busy, removed or system.
Code adopt(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t task) noexcept;
/// Sets `seconds` to the time until the lease ends, or to 0 if it never ends. Returns ok, not_owner, removed or system.
Code remaining(Dictionary& dictionary, std::string_view key, const Lease& lease, double& seconds) noexcept;

/// Takes the slow path of unlock(), which uses the mutex.
Code unlock_slowly(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept;

inline Code unlock(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept {
  if (lease.owner == dictionary.world().known_token() && lease.owner != kNobody && unlock_fast(dictionary, key, lease))
      [[likely]] {
    lease = {};
    return Code::ok;
  }
  return unlock_slowly(dictionary, key, lease, patience_ns);
}

/// The late releases of this process. Thread safety: any thread may make any call.
class LateReleases {
 public:
  /// Returns the only object, which is never destroyed, because threads may be inside calls while the process runs its
  /// exit handlers.
  static LateReleases& get() noexcept;
  /// Returns whether any late release is pending. The answer is a hint.
  static bool any() noexcept { return count.load(kRelaxed) != 0; }

  /// Takes over the lease. Returns false and does nothing if there is no memory, or if a signal handler has interrupted
  /// a call of this thread.
  bool add(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
  /// Tries to release each lease once, without waiting for a mutex. Returns whether any lease has ended now.
  bool retry() noexcept { return run_round(0); }

 private:
  struct Pending {
    Dictionary& dictionary;  // handles live as long as the process
    std::string key;
    Lease lease;
  };

  LateReleases() = default;
  static void* run(void* argument) noexcept;
  bool run_round(std::uint64_t patience_ns) noexcept;
  void see_to_thread() noexcept;
  /// Returns whether nothing is left to do, so that the thread ends.
  bool is_done() noexcept;
  template <class Change>
  bool change_list(Change&& change) noexcept;

  inline static std::atomic<std::size_t> count{0};  // number of pending_

  platform::LongMutex mutex_;  // guards the members below, which change only inside a ForkGuard
  std::list<Pending> pending_;
  Token thread_of_ = kNobody;  // the process in which the thread runs; kNobody: no thread
};

}  // namespace holdfast
