// The job of `holdfast lock`: the command, and the processes that it started in its process group. The lock ends when
// all of them have ended. A daemon leaves the group, usually by setsid(2), and so leaves the job.
//
// Two ways find the members. The wrapper is the subreaper of the command: a process whose parent has ended becomes a
// child of the wrapper, so all members descend from it. Other processes, and the guard when the wrapper has been
// killed, search for what members inherit: the mark in their environment, and a descriptor of the lock. A member that
// has neither is missed. Processes that the wrapper's process started earlier leave orphans to the wrapper, too. So if
// there were any, the wrapper also searches for what members inherit.
//
// Why not a process group for the job alone: a terminal's keys, `kill %1` and `timeout -k` reach the group of
// `holdfast lock`. They must reach the command as they do below flock(1).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// The environment variable with the marks of the jobs that a process belongs to, the innermost last, with colons in
/// between.
inline constexpr const char* kJobVariable = "HOLDFAST_JOB";

/// Makes the mark of the job whose command is this process or a child of it, in its present process group. No other job
/// has the same mark until the machine starts again.
std::string make_job_mark(pid_t command);

struct FoundJob {
  std::string mark;
  pid_t command;
  pid_t group;
  std::string file;   // a file that members have open, as /proc names it; empty: unknown
  pid_t wrapper = 0;  // no member, but in the group, and with the file; 0: unknown
};

/// Returns the name of the descriptor's file in /proc, even if the file has been deleted. Empty on failure.
std::string name_of_file(int descriptor);

/// Finds the job whose command is or was that process. Returns nothing if there is none yet, or if the environment of
/// its processes may not be read.
std::optional<FoundJob> find_job(pid_t command);

/// Adds the mark of the job whose command this process becomes to its environment, at the first call.
void begin_job();

/// Makes this process the subreaper of its descendants.
void adopt_orphans() noexcept;

/// Returns the living members of the job that descend from `root`, but not those that are or descend from a process in
/// `except`. A command may have moved to a process group of its own, as timeout(1) does; then that group counts, too.
std::vector<pid_t> descending_members(pid_t root, pid_t command, pid_t group, const std::vector<pid_t>& except);

/// Returns the command of the innermost job that this process belongs to; 0: none.
pid_t command_of_this_job();

/// Returns the living members that have inherited the mark or the file.
std::vector<pid_t> marked_members(const FoundJob& job);

/// Returns the children of this process.
std::vector<pid_t> children_of_this();

}  // namespace holdfast::cli
