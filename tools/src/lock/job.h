// The job of `holdfast lock`: the command, and the processes that it started in its process group. The lock ends when
// all of them have ended. A daemon leaves the group, usually by setsid(2), and so leaves the job.
//
// Two ways find the members. The wrapper is the subreaper of the command: a process whose parent has ended becomes a
// child of the wrapper, so all members descend from it. Other processes, and the guard when the wrapper has been
// killed, search for the mark that members inherit in their environment; a member that cleared its environment is
// missed.
//
// Why not a process group for the job alone: a terminal's keys, `kill %1` and `timeout -k` reach the group of
// `holdfast lock`. They must reach the command as they do below flock(1).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// The environment variable with the mark of the innermost job.
inline constexpr const char* kJobVariable = "HOLDFAST_JOB";

/// Makes the mark of the job whose command is this process or a child of it. No other job has the same mark until the
/// machine starts again.
std::string make_job_mark(pid_t command);

struct FoundJob {
  std::string mark;
  pid_t group;
};

/// Finds the job whose command is or was that process. Returns nothing if there is none, or if the environment of its
/// processes may not be read.
std::optional<FoundJob> find_job(pid_t command);

/// Makes this process the subreaper of its descendants.
void adopt_orphans() noexcept;

/// Returns the living descendants of `root` that are in the process group `group`, but not those named in `except`.
std::vector<pid_t> descendants_in_group(pid_t root, pid_t group, const std::vector<pid_t>& except);

/// Returns the living processes in the process group `group` that have the mark.
std::vector<pid_t> marked_in_group(const std::string& mark, pid_t group);

/// Returns the living processes of a job found in that way; `command` counts whatever its group is.
std::vector<pid_t> members_of(pid_t command, const FoundJob& job);

}  // namespace holdfast::cli
