#include "inspect/processes.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/token.h"
#include "inspect/proc.h"
#include "inspect/text.h"

namespace holdfast::inspect {

namespace {

/// Time limits for all questions to the kernel together. After the limit, the kernel is not asked any more. The short
/// limit applies if /proc can answer instead, otherwise the long limit applies.
constexpr double kShortTimeout = 0.01;
constexpr double kLongTimeout = 0.1;
/// The maximum difference between the clock that shows a process's start and the clock that shows its entry.
constexpr double kClockSlack = 0.1;

std::uint64_t own_pid_namespace() {
  static const std::uint64_t own = [] {
    struct stat info {};
    return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  }();
  return own;
}

const std::string& own_host() {
  static const std::string own = [] {
    utsname names{};
    ::uname(&names);
    constexpr std::size_t kHostMax = sizeof(holdfast_process::host) - 1;
    return std::string(static_cast<const char*>(names.nodename)).substr(0, kHostMax);
  }();
  return own;
}

Life life_of(const ProcStat& stat) { return stat.is_stopped() ? Life::stopped : Life::alive; }

/// Returns whether the process has ended. REQUIRES: its slot is kept. /proc may hide the processes of other users, but
/// kill(2) still shows that they exist.
bool has_ended(std::uint32_t pid, const std::optional<ProcStat>& stat) {
  if (stat) return stat->state == 'Z' || stat->state == 'X';
  return pid != 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

const char* life_in_words(Life life) noexcept {
  constexpr std::array<const char*, 5> kWords{"alive", "stopped", "dead", "unknown", "ended"};
  return kWords[static_cast<std::size_t>(life)];
}

namespace {

bool is_unusual(const Process& process) noexcept { return !process.is_there() || process.life == Life::stopped; }

}  // namespace

const char* comma_after(const Process& process) noexcept { return process.pid != 0 && is_unusual(process) ? "," : ""; }

std::string in_words(const Process& process) {
  if (process.pid == 0) return process.life == Life::dead ? "a dead process" : "an unknown process";
  std::string text = fmt::format("pid {}", process.shown_pid());
  if (!process.program.empty()) text += fmt::format(" ({})", escaped(process.program));
  if (!process.host.empty()) text += fmt::format(" on {}", escaped(process.host));
  if (is_unusual(process)) text += fmt::format(", {}", life_in_words(process.life));
  return text;
}

Expected<Processes> Processes::read() {
  Processes processes;
  if (Status read = processes.read_slots(); !read.ok()) return read;
  return processes;
}

/// Adds processes that are not known yet.
Status Processes::read_slots() {
  std::vector<holdfast_process> found(HOLDFAST_PROCESSES_MAX);
  std::uint32_t count = 0;
  const int code = holdfast_processes(found.data(), sizeof(holdfast_process), HOLDFAST_PROCESSES_MAX, &count);
  if (code != HOLDFAST_OK) return {static_cast<Code>(code), holdfast_error()};
  found.resize(std::min<std::size_t>(count, found.size()));
  foreign_read_ = false;
  // If several processes have had the same pid, the latest one counts.
  std::sort(found.begin(), found.end(),
            [](const holdfast_process& one, const holdfast_process& other) { return one.entered > other.entered; });
  for (const holdfast_process& process : found) {
    if (known_.contains(process.owner)) continue;
    const Known& known = known_[process.owner] = make(process);
    if (known.process.pid_here != 0) program_of_[known.process.pid_here] = known.process.program;
  }
  return {};
}

Processes::Known Processes::make(const holdfast_process& found) {
  constexpr std::uint32_t kNoWorker = 0xFFFFFFFF;
  Process process;
  process.token = found.owner;
  process.pid = found.pid;
  process.pid_here = find_pid_here(found);
  process.program = static_cast<const char*>(found.program);
  if (own_host() != static_cast<const char*>(found.host)) process.host = static_cast<const char*>(found.host);
  process.is_worker = found.worker != kNoWorker;
  process.worker = process.is_worker ? found.worker : 0;
  process.entered = found.entered;
  return {process, false};
}

std::uint32_t Processes::find_pid_here(const holdfast_process& process) {
  const bool is_here = process.pid_namespace == 0 || process.pid_namespace == own_pid_namespace();
  if (is_here) return process.pid;
  if (!foreign_read_) foreign_ = foreign_pids();
  foreign_read_ = true;
  const auto seen = foreign_.find({process.pid_namespace, process.pid});
  return seen != foreign_.end() ? seen->second : 0;
}

void Processes::judge(Known& known) {
  known.judged = true;
  Process& process = known.process;
  const auto stat = process.pid_here != 0 ? read_stat(process.pid_here) : std::nullopt;
  const bool fits = stat && stat->state != 'Z' && stat->state != 'X' && stat->age > process.entered - kClockSlack;
  if (asked_ > (fits ? kShortTimeout : kLongTimeout)) {
    process.life = fits ? life_of(*stat) : Life::unknown;
    return;
  }
  const double begin = holdfast_now();
  const int code = holdfast_process_lives(process.token);
  asked_ += holdfast_now() - begin;
  if (code == HOLDFAST_NOT_FOUND) process.life = Life::dead;
  if (code != HOLDFAST_OK) return;
  process.life = fits ? life_of(*stat) : has_ended(process.pid_here, stat) ? Life::ended : Life::alive;
}

/// Returns whether the slot belongs to a newer process by now. A slot is reused only after its previous process has
/// died, and tokens only grow.
bool Processes::has_successor(std::uint64_t token) const {
  const auto next = known_.upper_bound(token);
  return next != known_.end() && slot_of(next->first) == slot_of(token) && next->second.process.pid != 0;
}

/// Handles a token that was in no slot. Its process is gone, or has entered the world after the slots were read.
void Processes::meet(std::uint64_t token) {
  const auto is_dead = [&] { return token == kNobody || holdfast_process_lives(token) == HOLDFAST_NOT_FOUND; };
  bool dead = has_successor(token) || is_dead();
  if (!dead) static_cast<void>(read_slots());
  if (known_.contains(token)) return;
  dead = dead || is_dead();  // the process may have left the world in the meantime
  Known& known = known_[token];
  known.process.token = token;
  known.process.life = dead ? Life::dead : Life::unknown;
  known.judged = true;
}

const Process& Processes::of(std::uint64_t token) {
  if (!known_.contains(token)) meet(token);
  Known& known = known_[token];
  if (!known.judged) judge(known);
  return known.process;
}

std::vector<const Process*> Processes::living() {
  std::vector<const Process*> found;
  for (auto& [token, known] : known_) {
    const Process& process = of(token);
    if (process.pid != 0 && process.life != Life::dead) found.push_back(&process);
  }
  std::sort(found.begin(), found.end(),
            [](const Process* one, const Process* other) { return one->shown_pid() < other->shown_pid(); });
  return found;
}

std::vector<std::uint32_t> Processes::pids() const {
  std::vector<std::uint32_t> found;
  for (const auto& [pid, program] : program_of_) found.push_back(pid);
  return found;
}

const std::string& Processes::program_of(std::uint32_t pid) const {
  static const std::string unknown;
  const auto found = program_of_.find(pid);
  return found != program_of_.end() ? found->second : unknown;
}

}  // namespace holdfast::inspect
