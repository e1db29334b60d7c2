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
  [[gnu::always_inline]] explicit ShardGuard(Shard& shard, std::uint64_t timeout_ns = kMutexPatienceNs) noexcept
      : shard_(shard), result_(shard.mutex().lock_for(timeout_ns)) {
    // Before all stores of this critical section: a reader that reads one of them, in memory that another process
    // released earlier, sees the epoch of that release too (pairs with Shard::unchanged_since).
    std::atomic_thread_fence(kRelease);
    if (result_ == LockResult::owner_died || !shard_.is_mark_known()) [[unlikely]]
      begin_slowly(shard, result_);
  }
  /// Takes over from another guard, which has passed its mutex on.
  struct PassedOn {};
  ShardGuard(Shard& shard, PassedOn) noexcept : shard_(shard), result_(LockResult::acquired) {}
  ~ShardGuard() {
    if (held()) shard_.mutex().unlock();
  }
  ShardGuard(const ShardGuard&) = delete;
  ShardGuard& operator=(const ShardGuard&) = delete;

  /// The mutex stays held when this ends. REQUIRES: it is held.
  void pass_on() noexcept { result_ = LockResult::busy; }

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
  // Apart from the object, which so can stay in registers.
  [[gnu::noinline, gnu::cold]] static void begin_slowly(Shard& shard, LockResult result) noexcept {
    if (result != LockResult::acquired && result != LockResult::owner_died) return;
    if (!shard.is_mark_known()) shard.follow_mark();  // first: a repair goes as far as the arena
    if (result == LockResult::owner_died) repair(shard);
  }

  Shard& shard_;
  LockResult result_;
};

}  // namespace holdfast
