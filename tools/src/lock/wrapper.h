// The process of `holdfast lock` that waits for the command. It passes signals on, notices if the lock is lost, ends
// the job when the job must end, and ends the hold when the job has ended.
#pragma once

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Takes the lock, runs the command and waits for the end of its job; with --no-fork, becomes the command. Returns the
/// exit status. Throws std::system_error.
int run_under_lock(const LockOptions& options);

/// Becomes the command, without a lock. Returns the exit status if that fails.
int run_without_lock(const LockOptions& options);

}  // namespace holdfast::cli
