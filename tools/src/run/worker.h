// A worker: the forked child that runs the script.
#pragma once

#include <sys/types.h>

#include "run/channel.h"
#include "run/script.h"

namespace holdfast::cli {

struct WorkerPlace {
  int number;  // from 0 to count - 1
  int count;
  pid_t master;
};

/// Runs the script in the child. Does not return. REQUIRES: become_worker() has been called, and every descriptor of
/// the master is closed.
[[noreturn]] void be_worker(const WorkerPlace& place, const Script& script, Descriptor channel);

}  // namespace holdfast::cli
