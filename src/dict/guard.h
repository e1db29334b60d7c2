// Holds the mutex of a shard for a scope. If the mutex's owner died, repairs the shard before the scope begins. If the
// arena has grown, updates this process's view of it.
#pragma once

#include <atomic>

#include "base/atomic.h"
#include "base/status.h"
#include "dict/repair.h"
#include "dict/shard.h"

namespace holdfast {

/// The time for which a change waits for an owner that is alive but stopped.
inline constexpr std::uint64_t kMutexPatienceNs = 1'000'000'000;

class ShardGuard {
 public:
  /// Takes the mutex. It is inlined, because every change runs this code, and a call would take a tenth of the time of
  /// the shortest change. REQUIRES: the shard is open.
  [[gnu::always_inline]] explicit ShardGuard(Shard& shard, std::uint64_t timeout_ns = kMutexPatienceNs) noexcept
      : shard_(shard), result_(shard.mutex().lock_for(timeout_ns)) {
    // This fence precedes all stores of this critical section. If a reader sees one of these stores in memory that
    // another process released earlier, it also sees the epoch of that release (pairs with Shard::unchanged_since).
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

  /// Keeps the mutex when this guard ends, so that another guard can take it over. REQUIRES: the mutex is held.
  void pass_on() noexcept { result_ = LockResult::busy; }

  bool held() const noexcept { return result_ == LockResult::acquired || result_ == LockResult::owner_died; }
  /// Returns ok if the mutex is held; otherwise the reason why not.
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
  // This function is static, so that the object can stay in registers.
  [[gnu::noinline, gnu::cold]] static void begin_slowly(Shard& shard, LockResult result) noexcept {
    if (result != LockResult::acquired && result != LockResult::owner_died) return;
    if (!shard.is_mark_known()) shard.follow_mark();  // first, because a repair covers the known arena
    if (result == LockResult::owner_died) repair(shard);
  }

  Shard& shard_;
  LockResult result_;
};

}  // namespace holdfast
