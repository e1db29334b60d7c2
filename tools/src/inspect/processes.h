// The processes of a world as people know them: by pid here, program, host, and whether they live.
//
// The world goes on while it is looked at: a holder may have entered after its processes were read. So a token that is
// not known is looked up once more, and nothing is called dead unless its place has another process or the kernel says
// so. The order of looks at processes and at locks does not matter.
//
// What a process says of itself is in its place in the world. Whether it lives is asked of the kernel, which answers in
// a microsecond, or in milliseconds where a thousand processes have a hundred dictionaries open each. So the time for
// that is bounded; behind the bound /proc decides: the process with that pid is the one that entered, if it is older.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "holdfast.h"

namespace holdfast::inspect {

/// stopped: by a signal, or by a debugger. It lives, and does not run. ended: it is gone, and others keep what it held,
/// as what a command of `holdfast lock --no-fork` has left running.
enum class Life { alive, stopped, dead, unknown, ended };
/// "alive", "stopped", "dead", "unknown", "ended".
const char* life_in_words(Life life) noexcept;

struct Process {
  std::uint64_t token = 0;
  std::uint32_t pid = 0;       // as it counts itself; 0: nothing is known of it, as after its end
  std::uint32_t pid_here = 0;  // in this process's pid namespace; 0: it is not seen from here
  std::string program;
  std::string host;  // of the machine or container; empty if it is that of this process
  std::uint32_t worker = 0;
  bool is_worker = false;
  double entered = 0;  // seconds since then
  Life life = Life::unknown;

  std::uint32_t shown_pid() const noexcept { return pid_here != 0 ? pid_here : pid; }
  /// Else its pid may be that of another process now.
  bool is_there() const noexcept { return life != Life::dead && life != Life::ended; }
};

/// "pid 4711 (backup.sh)", with "on HOST" and "dead", "stopped" or "ended" where that is so.
std::string in_words(const Process& process);
/// What parts that from the rest of a sentence: a comma behind "dead", "stopped" or "ended".
const char* comma_after(const Process& process) noexcept;

class Processes {
 public:
  /// Of the world that this process looks at. NOT_FOUND and others as holdfast_processes.
  static Expected<Processes> read();

  /// The process with that token, also if it has entered since. Its life is found out now.
  const Process& of(std::uint64_t token);
  /// Those that live, by pid.
  std::vector<const Process*> living();
  /// Places that are taken, of HOLDFAST_PROCESSES_MAX.
  std::size_t taken() { return living().size(); }
  /// The pids here of all that may live, at no cost.
  std::vector<std::uint32_t> pids() const;
  /// The name of the program with that pid here; empty if it is not known.
  const std::string& program_of(std::uint32_t pid) const;

 private:
  struct Known {
    Process process;
    bool judged = false;
  };
  Status read_places();
  bool has_successor(std::uint64_t token) const;
  void meet(std::uint64_t token);
  void judge(Known& known);
  std::uint32_t find_pid_here(const holdfast_process& process);
  Known make(const holdfast_process& found);

  std::map<std::uint64_t, Known> known_;
  std::map<std::uint32_t, std::string> program_of_;                           // by pid here
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_;  // namespace and pid there, to pid here
  bool foreign_read_ = false;
  double asked_ = 0;  // seconds that the kernel took to answer
};

}  // namespace holdfast::inspect
