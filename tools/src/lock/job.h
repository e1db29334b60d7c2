// The job of `holdfast lock`: the command, and the processes that it started in its process group. The lock ends when
// all of them have ended. A daemon leaves the group, usually by setsid(2), and thereby the job.
//
// There are two ways to find the members. The wrapper is the subreaper of the command: a process whose parent has ended
// becomes a child of the wrapper, so all members descend from it. Other processes, and the guard when the wrapper has
// been killed, search for what members inherit: the mark in their environment, and a descriptor of the lock. A member
// that has neither is missed. Processes that the wrapper's process started before it became the wrapper also leave
// their orphans to the wrapper. If there were such processes, the wrapper also searches for what members inherit.
//
// The job does not have its own process group: the keys of a terminal, `kill %1` and `timeout -k` reach the group of
// `holdfast lock`. They must also reach the command, as they do with flock(1).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// The environment variable with the marks of the jobs that a process belongs to, separated by colons, the innermost
/// last.
inline constexpr const char* kJobVariable = "HOLDFAST_JOB";

/// Makes the mark of a job whose command is this process or its child, in its present process group. No other job has
/// the same mark until the machine is restarted.
std::string make_job_mark(pid_t command);

struct FoundJob {
  std::string mark;
  pid_t command;
  pid_t group;
  std::string file;   // a file that members have open, as it is called in /proc; empty: unknown
  pid_t wrapper = 0;  // not a member, but in the group, and has the file open; 0: unknown
};

/// Returns the name of the descriptor's file in /proc, even if the file has been deleted. Empty on failure.
std::string name_of_file(int descriptor);

/// Finds the job whose command is or was that process. Returns nothing if there is none yet, or if its environment
/// cannot be read.
std::optional<FoundJob> find_job(pid_t command);

/// Adds the mark of a new job to the environment of this process, which becomes the command of the job. Only the first
/// call has an effect.
void begin_job();

/// Makes this process the subreaper of its descendants.
void adopt_orphans() noexcept;

/// Returns the living members of the job that descend from `root`, except the processes in `except` and their
/// descendants. If the command has moved to a different process group, as timeout(1) does, that group counts, too.
std::vector<pid_t> descending_members(pid_t root, pid_t command, pid_t group, const std::vector<pid_t>& except);

/// Returns the command of the innermost job that this process belongs to; 0: none.
pid_t command_of_this_job();

/// Returns the living members that have inherited the mark or the file.
std::vector<pid_t> marked_members(const FoundJob& job);

/// Returns the children of this process.
std::vector<pid_t> children_of_this();

}  // namespace holdfast::cli
