// `holdfast lock --upgrade`: makes a shared lock of the caller exclusive. The lock belongs to the keeper of a
// descriptor, or to the command of the job in which this process runs. This process waits on behalf of the lock's
// holder, and leaves nothing behind if it is killed.
#pragma once

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns the exit status.
int upgrade_lock(const LockOptions& options);

}  // namespace holdfast::cli
