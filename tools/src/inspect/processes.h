// The processes of a world as people know them: the pid as seen from here, the program, the host, and whether the
// process is alive.
//
// The world changes while we read it: a holder may have entered after we read the processes. So the slots are read a
// second time if a token is unknown. A process counts as dead only if its slot has a different process or the kernel
// says so. Therefore, processes and locks may be read in any order.
//
// A process describes itself in its slot of the world, but only the kernel knows whether it is alive. The kernel
// answers in a microsecond, or in milliseconds if a thousand processes have a hundred dictionaries open each, so the
// total time for its answers is limited. After that, /proc decides: a process with the same pid that was started before
// the entry is the one that entered.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "holdfast.h"

namespace holdfast::inspect {

/// stopped: suspended by a signal or a debugger. ended: gone, but others still hold its locks, such as processes that a
/// command of `holdfast lock --no-fork` left running.
enum class Life { alive, stopped, dead, unknown, ended };
/// Returns "alive", "stopped", "dead", "unknown" or "ended".
const char* life_in_words(Life life) noexcept;

struct Process {
  std::uint64_t token = 0;
  std::uint32_t pid = 0;       // its own pid; 0: nothing is known about the process, for example after its end
  std::uint32_t pid_here = 0;  // in this process's pid namespace; 0: not visible from here
  std::string program;
  std::string host;  // of the machine or container; empty if it is this process's host
  std::uint32_t worker = 0;
  bool is_worker = false;
  double entered = 0;  // seconds since its entry
  Life life = Life::unknown;

  std::uint32_t shown_pid() const noexcept { return pid_here != 0 ? pid_here : pid; }
  /// Returns whether the process still exists. If not, its pid may belong to a different process now.
  bool is_there() const noexcept { return life != Life::dead && life != Life::ended; }
};

/// Returns "pid 4711 (backup.sh)", followed by "on HOST", "dead", "stopped" or "ended" if that applies.
std::string in_words(const Process& process);
/// Returns the separator before the rest of a sentence, which is a comma after "dead", "stopped" or "ended".
const char* comma_after(const Process& process) noexcept;

class Processes {
 public:
  /// Reads the processes of the world that this process observes. On failure returns the error of holdfast_processes,
  /// such as NOT_FOUND.
  static Expected<Processes> read();

  /// Returns the process with this token, even if it entered after read(). Checks now whether the process is alive.
  const Process& of(std::uint64_t token);
  /// Returns the living processes, sorted by pid.
  std::vector<const Process*> living();
  /// Returns the number of used slots; there are HOLDFAST_PROCESSES_MAX.
  std::size_t taken() { return living().size(); }
  /// Returns the pids, as seen from here, of all processes that may be alive. Does not ask the kernel.
  std::vector<std::uint32_t> pids() const;
  /// Returns the program of the process with this pid, as seen from here; empty if unknown.
  const std::string& program_of(std::uint32_t pid) const;

 private:
  struct Known {
    Process process;
    bool judged = false;
  };
  Status read_slots();
  bool has_successor(std::uint64_t token) const;
  void meet(std::uint64_t token);
  void judge(Known& known);
  std::uint32_t find_pid_here(const holdfast_process& process);
  Known make(const holdfast_process& found);

  std::map<std::uint64_t, Known> known_;
  std::map<std::uint32_t, std::string> program_of_;                           // by pid here
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_;  // namespace and pid in it, to pid here
  bool foreign_read_ = false;
  double asked_ = 0;  // seconds that the kernel took to answer
};

}  // namespace holdfast::inspect
