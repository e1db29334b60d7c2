// The processes of a world, as people know them: by the pid as seen from here, the program and the host. Also says
// whether a process is alive.
//
// The world changes while it is read. A holder may have entered the world after the processes were read, so the slots
// are read a second time if a token is unknown. A process counts as dead only if its slot belongs to a different
// process, or if the kernel says so. Therefore, processes and locks may be read in any order.
//
// A process describes itself in its slot, but only the kernel knows whether the process is alive. The kernel answers in
// a microsecond, or in milliseconds if a thousand processes have a hundred dictionaries open each, so the total time
// for its answers is limited. After that time, /proc is used instead: if a process has the same pid and was started
// before the slot was filled, it is the process that filled the slot.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "holdfast.h"

namespace holdfast::inspect {

/// stopped: suspended by a signal or a debugger. ended: the process is gone, but other processes still hold its locks,
/// for example because a command of `holdfast lock --no-fork` left them running.
enum class Life { alive, stopped, dead, unknown, ended };
/// Returns "alive", "stopped", "dead", "unknown" or "ended".
const char* life_in_words(Life life) noexcept;

struct Process {
  std::uint64_t token = 0;
  std::uint32_t pid = 0;       // the pid in its own namespace; 0: nothing is known, for example after its end
  std::uint32_t pid_here = 0;  // the pid in this process's namespace; 0: not visible from here
  std::string program;
  std::string host;  // the name of the machine or container; empty if it is this process's host
  std::uint32_t worker = 0;
  bool is_worker = false;
  double entered = 0;  // seconds since the process entered the world
  Life life = Life::unknown;

  std::uint32_t shown_pid() const noexcept { return pid_here != 0 ? pid_here : pid; }
  /// Returns whether the process still exists. If not, its pid may belong to a different process now.
  bool is_there() const noexcept { return life != Life::dead && life != Life::ended; }
};

/// Returns "pid 4711 (backup.sh)", followed by "on HOST", "dead", "stopped" or "ended" if that applies.
std::string in_words(const Process& process);
/// Returns the text that separates in_words() from the rest of a sentence. It is a comma if in_words() ends with
/// "dead", "stopped" or "ended", otherwise empty.
const char* comma_after(const Process& process) noexcept;

class Processes {
 public:
  /// Reads the processes of the world that this process observes. On failure, returns the error from
  /// holdfast_processes, such as NOT_FOUND.
  static Expected<Processes> read();

  /// Returns the process with this token, even if it entered after read(). Checks now whether the process is alive.
  const Process& of(std::uint64_t token);
  /// Returns the living processes, sorted by pid.
  std::vector<const Process*> living();
  /// Returns the number of used slots, of which there are HOLDFAST_PROCESSES_MAX.
  std::size_t taken() { return living().size(); }
  /// Returns the pids, as seen from here, of all processes that may be alive. Does not ask the kernel.
  std::vector<std::uint32_t> pids() const;
  /// Returns the program of the process with this pid, as seen from here, or an empty string if it is unknown.
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
  std::map<std::uint32_t, std::string> program_of_;                           // indexed by the pid as seen here
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_;  // (namespace, pid in it) to pid here
  bool foreign_read_ = false;
  double asked_ = 0;  // seconds that the kernel took to answer
};

}  // namespace holdfast::inspect
