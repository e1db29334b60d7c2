#include "lock/job.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "inspect/proc.h"

namespace holdfast::cli {

namespace {

bool is_alive(const inspect::ProcStat& stat) { return stat.state != 'Z' && stat.state != 'X'; }

/// Returns the value of the variable in the environment that the process got from exec.
std::optional<std::string> initial_value(pid_t pid, std::string_view name) {
  const auto environment = inspect::read_whole(fmt::format("/proc/{}/environ", pid));
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

}  // namespace

std::string make_job_mark(pid_t command) {
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(command));
  return fmt::format("{}.{}", command, stat ? stat->start : 0);
}

std::optional<FoundJob> find_job(pid_t command) {
  const std::string prefix = fmt::format("{}.", command);
  const auto look_at = [&](std::uint32_t pid) -> std::optional<FoundJob> {
    const auto stat = inspect::read_stat(pid);
    if (!stat || !is_alive(*stat)) return std::nullopt;
    auto mark = initial_value(static_cast<pid_t>(pid), kJobVariable);
    if (!mark || !mark->starts_with(prefix)) return std::nullopt;
    return FoundJob{std::move(*mark), stat->group};
  };
  if (auto job = look_at(static_cast<std::uint32_t>(command))) return job;
  for (const std::uint32_t pid : inspect::all_pids())
    if (auto job = look_at(pid)) return job;
  return std::nullopt;
}

void adopt_orphans() noexcept { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> descendants_in_group(pid_t root, pid_t group, const std::vector<pid_t>& except) {
  std::map<std::uint32_t, inspect::ProcStat> all;
  for (const std::uint32_t pid : inspect::all_pids())
    if (auto stat = inspect::read_stat(pid)) all.emplace(pid, std::move(*stat));
  const auto descends = [&](std::uint32_t pid) {
    // A process that has ended, and whose number another process got, may close a ring.
    for (std::size_t steps = 0; steps <= all.size(); ++steps) {
      const auto found = all.find(pid);
      if (found == all.end()) return false;
      pid = found->second.parent;
      if (pid == static_cast<std::uint32_t>(root)) return true;
    }
    return false;
  };
  std::vector<pid_t> members;
  for (const auto& [number, stat] : all) {
    const auto pid = static_cast<pid_t>(number);
    const bool counts = is_alive(stat) && stat.group == group && pid != root &&
                        std::find(except.begin(), except.end(), pid) == except.end();
    if (counts && descends(number)) members.push_back(pid);
  }
  return members;
}

std::vector<pid_t> marked_in_group(const std::string& mark, pid_t group) {
  std::vector<pid_t> members;
  for (const std::uint32_t number : inspect::all_pids()) {
    const auto stat = inspect::read_stat(number);
    const auto pid = static_cast<pid_t>(number);
    if (stat && is_alive(*stat) && stat->group == group && initial_value(pid, kJobVariable) == mark)
      members.push_back(pid);
  }
  return members;
}

std::vector<pid_t> members_of(pid_t command, const FoundJob& job) {
  std::vector<pid_t> members = marked_in_group(job.mark, job.group);
  const auto add = [&](pid_t pid) {
    if (std::find(members.begin(), members.end(), pid) == members.end()) members.push_back(pid);
  };
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(command));
  if (!stat || !is_alive(*stat)) return members;
  add(command);
  // Its wrapper, if that is alive, finds also members without the mark.
  const auto parent = inspect::read_stat(stat->parent);
  if (parent && parent->program == "holdfast")
    for (const pid_t pid : descendants_in_group(static_cast<pid_t>(stat->parent), job.group, {})) add(pid);
  return members;
}

}  // namespace holdfast::cli
