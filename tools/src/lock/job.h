// The job of `holdfast lock` consists of the command and of the processes that it started in its process group. The
// lock ends when all members of the job have ended. A daemon leaves the group, usually by setsid(2), and thus the job.
//
// There are two ways to find the members. The wrapper is the subreaper of its descendants: a process whose parent has
// ended becomes a child of the wrapper. So all members descend from the wrapper.
//
// Other processes, such as the guard after the wrapper was killed, search for processes that have inherited the job's
// mark in their environment or a descriptor of the lock. They miss a member that has neither. The wrapper's process may
// have had children before it became the wrapper, and also adopts their orphans. In this case, the wrapper searches for
// the mark and the descriptor, too.
//
// The job does not have its own process group. The keys of a terminal, `kill %1` and `timeout -k` send signals to the
// group of `holdfast lock`. As with flock(1), these signals must also reach the command.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// The environment variable with the marks of the jobs that a process belongs to. The marks are separated by colons,
/// and the innermost job comes last.
inline constexpr const char* kJobVariable = "HOLDFAST_JOB";

/// Makes the mark of a job whose command is this process or its child, and whose process group is the current group. No
/// other job has the same mark until the machine is restarted.
std::string make_job_mark(pid_t command);

struct FoundJob {
  std::string mark;
  pid_t command;
  pid_t group;
  std::string file;   // the name in /proc of a file that members have open; empty: unknown
  pid_t wrapper = 0;  // in the group with the file open, but not a member; 0: unknown
};

/// Returns the name of the descriptor's file in /proc, even if the file has been deleted, or an empty string on
/// failure.
std::string name_of_file(int descriptor);

/// Finds the job whose command is or was this process. Returns nothing if the job does not exist yet, or if the
/// process's environment cannot be read.
std::optional<FoundJob> find_job(pid_t command);

/// Adds the mark of a new job to the environment of this process, which will become the job's command. Only the first
/// call has an effect.
void begin_job();

/// Makes this process the subreaper of its descendants.
void adopt_orphans() noexcept;

/// Returns the living members of the job that descend from `root`, except the processes in `except` and their
/// descendants. If the command has moved to a different process group, as timeout(1) does, processes in that group are
/// members, too.
std::vector<pid_t> descending_members(pid_t root, pid_t command, pid_t group, const std::vector<pid_t>& except);

/// Returns the command of the innermost job that this process belongs to, or 0 if there is none.
pid_t command_of_this_job();

/// Returns the living members that have inherited the mark or the open file.
std::vector<pid_t> marked_members(const FoundJob& job);

/// Returns the children of this process.
std::vector<pid_t> children_of_this();

}  // namespace holdfast::cli
