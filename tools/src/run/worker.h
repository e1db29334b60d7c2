// A worker: the forked child that runs the script.
#pragma once

#include <sys/types.h>

#include "run/channel.h"
#include "run/script.h"

namespace holdfast::cli {

struct WorkerPlace {
  int number;  // 0 to count - 1
  int count;
  pid_t master;
};

/// Runs in the child, with its signals as become_worker() leaves them and every descriptor of the master closed. Does
/// not return.
[[noreturn]] void be_worker(const WorkerPlace& place, const Script& script, Descriptor channel);

/// Makes the kernel send `signal` to this process when the master dies; ends it if the master is dead already.
void follow_master(pid_t master, int signal);

}  // namespace holdfast::cli
