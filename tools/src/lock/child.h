// The process that takes the lock and becomes the command.
#pragma once

#include "lock/lock_options.h"

namespace holdfast::cli {

/// `channel`: the socket to the wrapper, which guards the hold; -1 without a wrapper. Returns only if the command does
/// not start: the exit status.
int take_and_become(const LockOptions& options, int channel);

}  // namespace holdfast::cli
