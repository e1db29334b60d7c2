// Late releases: leases of this process that could not be given back, mostly because a process is stopped inside the
// shard, for callers that do not come again (holdfast_unlock_for_certain).
//
// A thread tries again until each lease is given back or lost, then it ends. Where no thread can be started, the next
// call that finds something held tries them. A forked child inherits notes of its parent's leases: it drops each at the
// first attempt, which is refused with not_owner.
//
// Thread safety: all calls, from any thread.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <string_view>

#include "base/atomic.h"
#include "base/token.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "platform/platform.h"

namespace holdfast {

class LateReleases {
 public:
  /// Never destroyed: threads may be inside calls while the process runs its exit handlers.
  static LateReleases& get() noexcept;
  /// Whether any lease waits for an attempt. A hint.
  static bool any() noexcept { return count_.load(kRelaxed) != 0; }

  /// Takes the lease over. False, with nothing done: there is no memory, or a signal handler has interrupted a call of
  /// this thread.
  bool add(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
  /// Tries each of them once, and waits for no mutex. Returns whether any lease is over now.
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
  /// The thread ends if there is nothing left to do.
  bool is_done() noexcept;
  template <class Change>
  bool change_list(Change&& change) noexcept;

  inline static std::atomic<std::size_t> count_{0};  // of pending_

  platform::LongMutex mutex_;  // guards what follows, which changes only inside a ForkGuard
  std::list<Pending> pending_;
  Token thread_of_ = kNobody;  // the process that the thread runs in; kNobody: there is none
};

}  // namespace holdfast
