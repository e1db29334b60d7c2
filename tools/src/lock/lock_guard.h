// The guard is a process that ends a hold when the job has ended, and ends the job when the job must end. It does so
// even if its parent has ended. While the parent is alive, the guard gives it time to do both, because the parent acts
// as the holder itself.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "cli/descriptor.h"
#include "lock/job.h"
#include "lock/lock_end.h"
#include "lock/lock_hold.h"

namespace holdfast::cli {

class LockGuard {
 public:
  LockGuard() = default;
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

  /// Prepares to guard a new child, whose job is in the process group `group`. Call this before the lock is held.
  void prepare(pid_t child, pid_t group);
  /// Guards the child's hold. If this returns false, only the caller and the job can end the hold.
  bool start(Hold& hold, const std::string& key, const LockEnd& lock_end);
  /// Returns whether the guard acted before its parent. In this case, another process may have the lock, although
  /// nobody took it away.
  bool has_acted() const noexcept { return acts_ != nullptr && acts_->load(std::memory_order_acquire); }
  /// Returns the child's job.
  const FoundJob& job() const noexcept { return job_; }
  /// Returns the guard's pid, or 0 if there is none.
  pid_t pid() const noexcept { return pid_; }
  /// Call this when this process has reaped a child. Returns whether the child was the guard.
  bool note_end(pid_t child) noexcept {
    const bool is_guard = child == pid_;
    if (is_guard) pid_ = 0;
    return is_guard;
  }
  /// Ends the guard of a hold that has ended, and waits for the guard's end. The guard is in the same world, so
  /// otherwise the parent could not remove dictionaries that nobody uses any more.
  void end() noexcept;

 private:
  FoundJob job_;
  Descriptor child_;   // the child's pidfd
  Descriptor parent_;  // the pidfd of this process
  pid_t pid_ = 0;
  std::atomic<bool>* acts_ = nullptr;  // in memory shared by both processes
};

}  // namespace holdfast::cli
