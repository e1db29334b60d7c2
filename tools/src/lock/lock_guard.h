// The process that ends a hold when the command has ended, whatever became of all others. A living parent gives the
// lock back as its holder would, so it has a moment to come first.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "lock/lock_hold.h"

namespace holdfast::cli {

class LockGuard {
 public:
  LockGuard() = default;
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

  /// Guards a child that has this hold, instead of one that it has had before. False if that is not possible: then only
  /// the caller and the command are left to end the hold. REQUIRES: the child is not reaped yet.
  bool start(pid_t child, Hold& hold, const std::string& key);
  /// Whether it has come before its parent: then the lock may be another's, though nobody took it away.
  bool has_acted() const noexcept { return acts_ != nullptr && acts_->load(std::memory_order_acquire); }
  /// For the parent that has ended the hold itself. Leaves no zombie to a parent that does not reap.
  void end() const;

 private:
  bool share_memory();

  pid_t pid_ = 0;
  std::atomic<bool>* acts_ = nullptr;  // in memory that both have, for as long as they live
};

}  // namespace holdfast::cli
