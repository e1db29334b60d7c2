// Implements a lock that belongs to a descriptor of the caller, for `holdfast lock --fd 9 KEY` and `holdfast flock 9`.
// A process called the keeper watches the descriptor, and holds the lock until the last copy of the descriptor is
// closed.
//
// Through the descriptor, the keeper locks a byte beyond the end of the file with fcntl(F_OFD_SETLK). This lock belongs
// to the open file description: it survives dup(2) and fork(2), and ends when the last descriptor is closed. The
// position of the byte encodes the keeper's pid. The keeper does not keep a copy of the descriptor. When a process
// closes the file, inotify(7) notifies the keeper, which then checks whether its byte is still locked. --unlock unlocks
// the byte, and wakes the keeper by opening and closing the file.
#pragma once

#include <sys/types.h>

#include <set>

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns whether the caller has this descriptor open. If not, prints an error.
bool is_open_or_said(int fd);

/// Takes the lock for the descriptor in the options, and leaves a keeper running. Returns the exit status.
int lock_descriptor(const LockOptions& options);

/// Returns the pids of the keepers that hold locks for the descriptor.
std::set<pid_t> keepers_of_descriptor(int fd);

/// Ends all locks that lock_descriptor() took for the descriptor, and waits until their keepers have ended. Returns the
/// number of these locks.
int unlock_descriptor(int fd);

}  // namespace holdfast::cli
