// The flock(2) of a file. `holdfast flock` holds it in addition to the visible lock, to exclude processes that use
// plain flock(1).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns a text that names the holder of the file's flock(2), such as "pid 4711 (rsync)". Returns "another process"
/// if the holder cannot be found.
std::string flock_holder(int fd);

/// Takes the flock(2) of `fd`, and waits for it until holdfast_now() reaches `deadline`. During the wait, calls
/// `waiting` every second, unless it is null. On NFS, where an exclusive lock needs a file that is open for writing,
/// opens the file again in the same descriptor. Returns 0, or an error number: EWOULDBLOCK if another process holds the
/// flock(2).
int take_flock(int fd, bool shared, double deadline, const std::function<void()>& waiting);

/// Reports that take_flock() failed with this error. Returns the exit status. If another process holds the flock(2),
/// this is the status for a conflict.
int refuse_flock(const LockOptions& options, int error);

}  // namespace holdfast::cli
