// Turns a process into the command of `holdfast lock`.
#pragma once

#include <cstdint>

#include "lock/lock_hold.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// Replaces this process by the command, which gets the fencing token and, unless --close was given, inherits the hold.
/// `token` is 0 if no visible lock is held. Returns only on failure, with an error number.
int execute_command(const LockOptions& options, std::uint64_t token, const Hold& hold);
/// Reports that execute_command() failed, and returns the exit status.
int refuse_command(const LockOptions& options, int error);

/// Runs in the wrapper's child: waits until the wrapper has the lock, and becomes the command. `channel`: the socket to
/// the wrapper. Returns only if the command does not start, with the exit status.
int become_command_when_held(const LockOptions& options, int channel);

}  // namespace holdfast::cli
