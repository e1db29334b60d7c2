// The fast path takes and releases a lock with one compare-and-swap, without the mutex of the shard. The rules are in
// dict/lock_word.h.
//
// A call gives up when the mutex is needed: the lock is held, a task waits for it, the key has no lock, or the memory
// of the shard changed in the meantime. In this case it has not changed anything, and the slow path takes the mutex.
#pragma once

#include <string_view>

#include "base/token.h"
#include "dict/dictionary.h"
#include "lock/request.h"
#include "sync/spin.h"

namespace holdfast {

enum class Fast {
  taken,
  held,     // a grant that has not ended holds the lock; its process may be dead
  lost,     // the lock was free, but another process was faster, or is changing it
  unclear,  // nothing was attempted
};

/// Takes the lock if it is free and nobody waits. `self` is this process's token. If the result is `held`, the lease
/// receives the holder's token.
Fast try_lock_fast(Dictionary& dictionary, std::string_view key, Token self, double exptime, std::uint32_t holder_task,
                   Lease& lease) noexcept;

enum class Polled {
  taken,
  open,  // the lock is free, but others wait, so the mutex must decide. The spin may continue afterwards
  over,
};
/// The policy and the progress of one spin for a lock.
struct LockPolls {
  const SpinPolicy& policy;
  int left = policy.budget;
  int intervals = 0;
  bool waited = false;  // the lock was held at one of the polls, or another process was faster
  bool opened = false;  // the last call returned `open`
};

/// Polls a lock that another process holds until the lock seems to be free. Then takes the lock if nobody waits.
Polled spin_for_lock(Dictionary& dictionary, std::string_view key, const Contender& contender, LockPolls& polls,
                     Lease& lease) noexcept;

/// Returns whether a process that is alive, according to the kernel, has a grant of this lock that has not ended.
bool is_held_for_certain(Dictionary& dictionary, std::string_view key) noexcept;

/// Releases the lease if nobody waits. REQUIRES: the lease belongs to this process.
bool unlock_fast(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;

}  // namespace holdfast
