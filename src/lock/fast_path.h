// The fast path takes and releases a lock with one compare-and-swap, without the mutex of the shard. The rules are in
// dict/lock_word.h.
//
// A call gives up when the mutex is needed: the lock is held, a task waits for it, the key has no lock, or the memory
// of the shard changed in the meantime. In this case it has not changed anything, and the slow path takes the mutex. A
// waiter that is already on its way does not count (lock/handoff.h).
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

/// Takes the lock if it is free, and nobody waits or the first waiter is on its way. A fair request overtakes no
/// waiter. `self` is this process's token. If the result is `held`, the lease receives the holder's token and, instead
/// of a fencing token, the time of the coarse clock (ns).
Fast try_lock_fast(Dictionary& dictionary, std::string_view key, Token self, double exptime, std::uint32_t holder_task,
                   bool fair, Lease& lease) noexcept;

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

/// A lease, and the place of its lock, for a caller that takes the same lock again and again. All zero: no lease, and
/// no place. REQUIRES: used with one key of one dictionary, and by one thread at a time.
///
/// The place is as good as a walk along the chain as long as the segment is the dictionary's present one, and no memory
/// of the shard was released (shard.h). Both are checked before the compare-and-swap, and the memory after it, exactly
/// as after a walk. So a removal, an eviction, a move or a deletion of the lock costs one ordinary call. As always, the
/// lock's word decides about everything else: a waiter, a reason, a gate, a flush, and the end of a block of tokens. A
/// forked child has another token, or none.
struct BoundLock {
  Lease lease;
  std::uint64_t segment;  // Segment::number(); 0: no place
  std::uint64_t epoch;    // reuse epoch of the shard before the lock was found
  const Shard* shard;
  LockFields* lock;
  std::uint64_t block;  // and above it, whether the caller's requests are fair

  static constexpr std::uint64_t block_of(std::uint32_t block, bool fair) noexcept {
    return block | std::uint64_t{fair} << 32;
  }
  bool is_fair() const noexcept { return block >> 32 != 0; }
};

/// Does the same as try_lock_fast(), and remembers the place if it took the lock. REQUIRES: the object is zero.
Fast try_lock_and_bind(Dictionary& dictionary, std::string_view key, const Contender& contender,
                       BoundLock& bound) noexcept;
/// Takes the lock if it is free and still in its place, and nobody waits. Returns 1, or 0 without any effect.
int lock_again(Dictionary& dictionary, std::string_view key, double exptime, std::uint32_t holder_task,
               BoundLock& bound) noexcept;
/// Releases the lease if the lock is still in its place, and nobody waits. Returns 1, or 0 without any effect.
int unlock_again(Dictionary& dictionary, std::string_view key, BoundLock& bound) noexcept;

}  // namespace holdfast
