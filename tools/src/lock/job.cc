#include "lock/job.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "inspect/proc.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

/// In /proc, the kernel adds this to the name of a deleted file.
constexpr std::string_view kDeleted = " (deleted)";

// The first thread may have ended while other threads run.
bool is_alive(const inspect::ProcStat& stat) { return stat.state != 'X' && (stat.state != 'Z' || stat.threads > 1); }

/// Returns the pids in /proc, or none if /proc shows a different pid namespace, for example in a container with the
/// /proc of its host.
std::vector<std::uint32_t> visible_pids() {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self", error);
  return self == std::to_string(::getpid()) ? inspect::all_pids() : std::vector<std::uint32_t>();
}

/// Returns the folder in /proc of a thread that has not ended.
std::string folder_of(std::uint32_t pid, const inspect::ProcStat& stat) {
  const std::string folder = fmt::format("/proc/{}", pid);
  if (stat.state != 'Z') return folder;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", error))
    if (thread.path().filename() != std::to_string(pid)) return thread.path();
  return folder;
}

/// Returns the value that the environment variable had when the process last called exec.
std::optional<std::string> initial_value(const std::string& folder, std::string_view name) {
  const auto environment = inspect::read_whole(folder + "/environ");
  if (!environment) return std::nullopt;
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return std::nullopt;
}

/// Returns the marks of the jobs that the process belongs to.
std::vector<std::string> marks_of(const std::string& folder) {
  std::vector<std::string> marks;
  std::istringstream all(initial_value(folder, kJobVariable).value_or(""));
  for (std::string mark; std::getline(all, mark, ':');) marks.push_back(mark);
  return marks;
}

}  // namespace

std::string make_job_mark(pid_t command) {
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(command));
  return fmt::format("{}.{}.{}", command, stat ? stat->start : 0, stat ? stat->group : 0);
}

std::string name_of_file(int descriptor) {
  std::error_code error;
  std::string name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
  if (name.ends_with(kDeleted)) name.resize(name.size() - kDeleted.size());
  return name;
}

std::optional<FoundJob> find_job(pid_t command) {
  const std::string prefix = fmt::format("{}.", command);
  const auto look_at = [&](std::uint32_t pid) -> std::optional<FoundJob> {
    const auto stat = inspect::read_stat(pid);
    if (!stat || !is_alive(*stat)) return std::nullopt;
    for (std::string& mark : marks_of(folder_of(pid, *stat))) {
      const auto group = inspect::whole_number_of(std::string_view(mark).substr(mark.rfind('.') + 1));
      if (mark.starts_with(prefix) && group) return FoundJob{std::move(mark), command, static_cast<pid_t>(*group), {}};
    }
    return std::nullopt;
  };
  for (const std::uint32_t pid : visible_pids())
    if (auto job = look_at(pid)) return job;
  return std::nullopt;
}

void begin_job() {
  static bool has_begun = false;
  if (std::exchange(has_begun, true)) return;
  const char* const outer = std::getenv(kJobVariable);
  const std::string mark = make_job_mark(::getpid());
  ::setenv(kJobVariable, (outer != nullptr ? outer + (":" + mark) : mark).c_str(), 1);
}

void adopt_orphans() noexcept { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> descending_members(pid_t root, pid_t command, pid_t group, const std::vector<pid_t>& except) {
  std::map<std::uint32_t, inspect::ProcStat> all;
  for (const std::uint32_t pid : visible_pids())
    if (auto stat = inspect::read_stat(pid)) all.emplace(pid, std::move(*stat));
  const auto is_excepted = [&](std::uint32_t pid) {
    return std::find(except.begin(), except.end(), static_cast<pid_t>(pid)) != except.end();
  };
  const auto descends = [&](std::uint32_t pid) {
    // Limit the steps. If a process has ended and its pid was given to another process, the chain of parents may be a
    // cycle.
    for (std::size_t steps = 0; steps <= all.size(); ++steps) {
      const auto found = all.find(pid);
      if (found == all.end() || is_excepted(pid)) return false;
      pid = found->second.parent;
      if (pid == static_cast<std::uint32_t>(root)) return true;
    }
    return false;
  };
  std::vector<pid_t> members;
  for (const auto& [pid, stat] : all)
    if (is_alive(stat) && (stat.group == group || stat.group == command) && descends(pid))
      members.push_back(static_cast<pid_t>(pid));
  return members;
}

namespace {

/// Returns the pid of the newest process in this pid namespace, or an empty string if it is unknown.
std::string newest_process() {
  const std::string load = inspect::read_whole("/proc/loadavg").value_or("");
  return load.substr(load.rfind(' ') + 1);
}

// Returns whether the process has the file open. Reads only the names of the process's files, because access to a file
// may hang.
bool has_open(const std::string& folder, const std::string& file) {
  std::error_code error;
  for (const auto& descriptor : std::filesystem::directory_iterator(folder + "/fd", error)) {
    const std::string name = std::filesystem::read_symlink(descriptor, error);
    if (!file.empty() && (name == file || name == fmt::format("{}{}", file, kDeleted))) return true;
  }
  return false;
}

bool has_inherited(const std::string& folder, const FoundJob& job) {
  const std::vector<std::string> marks = marks_of(folder);
  return std::find(marks.begin(), marks.end(), job.mark) != marks.end() || has_open(folder, job.file);
}

std::vector<pid_t> search_marks(const FoundJob& job) {
  std::vector<pid_t> members;
  for (const std::uint32_t number : visible_pids()) {
    const auto stat = inspect::read_stat(number);
    const auto pid = static_cast<pid_t>(number);
    if (!stat || !is_alive(*stat) || (stat->group != job.group && stat->group != job.command)) continue;
    if (pid != job.wrapper && has_inherited(folder_of(number, *stat), job)) members.push_back(pid);
  }
  return members;
}

}  // namespace

// If a member starts another process and ends during a search, the search may find neither. So a search that finds
// nothing is repeated if any process was started in the meantime. But the number of searches is limited, because
// processes may be started all the time.
std::vector<pid_t> marked_members(const FoundJob& job) {
  constexpr int kSearches = 20;
  for (int search = 1;; ++search) {
    const std::string before = newest_process();
    std::vector<pid_t> members = search_marks(job);
    if (!members.empty() || search == kSearches || newest_process() == before) return members;
  }
}

pid_t command_of_this_job() {
  const char* const marks = std::getenv(kJobVariable);
  const std::string_view all = marks != nullptr ? marks : "";
  const std::string_view mark = all.substr(all.rfind(':') + 1);
  return static_cast<pid_t>(inspect::whole_number_of(mark.substr(0, mark.find('.'))).value_or(0));
}

std::vector<pid_t> children_of_this() {
  std::vector<pid_t> children;
  // The kernel may omit a child only if another child leaves the list while the list is read. A child leaves the list
  // only when this process reaps it. Not every kernel has this file.
  if (const auto list = inspect::read_whole(fmt::format("/proc/self/task/{}/children", ::getpid()))) {
    for (std::string_view rest = *list; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      if (const auto child = inspect::whole_number_of(word)) children.push_back(static_cast<pid_t>(*child));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
    return children;
  }
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (const std::uint32_t pid : visible_pids()) {
    const auto stat = inspect::read_stat(pid);
    if (stat && stat->parent == self) children.push_back(static_cast<pid_t>(pid));
  }
  return children;
}

}  // namespace holdfast::cli
