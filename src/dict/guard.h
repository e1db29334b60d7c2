// The mutex of a shard, held for a scope. If its owner died, the shard is repaired before the scope begins. If its
// arena has grown, this process learns of it.
#pragma once

#include <atomic>

#include "base/atomic.h"
#include "base/status.h"
#include "dict/repair.h"
#include "dict/shard.h"

namespace holdfast {

/// How long a change waits for an owner that is alive but stopped.
inline constexpr std::uint64_t kMutexPatienceNs = 1'000'000'000;

class ShardGuard {
 public:
  /// Inline, as it is on the path of every change: a call would take a tenth of the time of the shortest one. REQUIRES:
  /// the shard is open.
  [[gnu::always_inline]] explicit ShardGuard(Shard& shard, std::uint64_t patience_ns = kMutexPatienceNs) noexcept
      : shard_(shard), result_(shard.mutex().lock_for(patience_ns)) {
    // Before all stores of this critical section: a reader that reads one of them, in memory that another process
    // released earlier, sees the epoch of that release too (pairs with Shard::unchanged_since).
    std::atomic_thread_fence(kRelease);
    if (result_ == LockResult::owner_died || !shard_.is_mark_known()) [[unlikely]]
      begin_slowly();
  }
  ~ShardGuard() {
    if (held()) shard_.mutex().unlock();
  }
  ShardGuard(const ShardGuard&) = delete;
  ShardGuard& operator=(const ShardGuard&) = delete;

  bool held() const noexcept { return result_ == LockResult::acquired || result_ == LockResult::owner_died; }
  /// ok if the mutex is held.
  Code code() const noexcept {
    switch (result_) {
      case LockResult::acquired:
      case LockResult::owner_died:
        return Code::ok;
      case LockResult::timeout:
        return Code::timeout;
      case LockResult::busy:
        return Code::busy;
      default:
        return Code::system;
    }
  }

 private:
  [[gnu::noinline, gnu::cold]] void begin_slowly() noexcept {
    if (!held()) return;
    if (!shard_.is_mark_known()) shard_.follow_mark();  // first: a repair goes as far as the arena
    if (result_ == LockResult::owner_died) repair(shard_);
  }

  Shard& shard_;
  LockResult result_;
};

}  // namespace holdfast
