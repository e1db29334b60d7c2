// The flock(2) of a file, which `holdfast flock` holds beside the visible lock: processes that use plain flock(1) are
// excluded by it, and it excludes them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Describes who holds the flock(2) of the file: "pid 4711 (rsync)". "another process" if it cannot be found.
std::string flock_holder(int fd);

/// Takes the flock(2) of `fd`, at the latest when holdfast_now() reaches `deadline`. `waiting`, if given, is called
/// every second during the wait. On NFS, where an exclusive lock needs a file open for writing, opens the file again in
/// the same descriptor. Returns 0, or an error number; EWOULDBLOCK: another process holds it.
int take_flock(int fd, bool shared, double deadline, const std::function<void()>& waiting);

/// Reports that take_flock() failed with that error, and returns the exit status. It is the status of a conflict if
/// another process holds the file.
int refuse_flock(const LockOptions& options, int error);

}  // namespace holdfast::cli
