// A lock that belongs to a descriptor of the caller: `holdfast lock --fd 9 KEY` and `holdfast flock 9`. It is held
// until the last copy of the descriptor is closed, by a process that watches the descriptor ("the keeper").
//
// Through the descriptor, the keeper locks a byte beyond the end of the file with fcntl(F_OFD_SETLK). This lock belongs
// to the open file description: it ends with its last descriptor, and dup(2) and fork(2) keep it. The position of the
// byte tells the keeper's pid. The keeper itself has no copy of the descriptor. It learns from inotify(7) that somebody
// closed the file, and then asks whether its byte is still locked. --unlock unlocks the byte and closes a copy of the
// file, which wakes the keeper.
#pragma once

#include <sys/types.h>

#include <set>

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns whether the caller has this descriptor open; prints an error if not.
bool is_open_or_said(int fd);

/// Takes the lock of the options for their descriptor, and leaves a keeper. Returns the exit status.
int lock_descriptor(const LockOptions& options);

/// Returns the pids of the keepers that hold locks of the descriptor.
std::set<pid_t> keepers_of_descriptor(int fd);

/// Ends all locks of the descriptor that lock_descriptor() took, and waits for the end of their keepers. Returns how
/// many there were.
int unlock_descriptor(int fd);

}  // namespace holdfast::cli
