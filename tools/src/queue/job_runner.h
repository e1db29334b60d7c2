// Runs the commands of `holdfast queue work`, one at a time. Each command is a process group of its own, so that a
// terminal's Ctrl-C reaches only the worker, which then lets the command finish.
//
// A job is retried as soon as its worker dies, so the command must end then. The kernel kills the command; a guard
// process, which keeps nothing open but a pipe from the worker, kills the rest of the group.
#pragma once

#include <sys/types.h>

#include <string>

#include "cli/arguments.h"
#include "cli/descriptor.h"
#include "lock/passed_signals.h"

namespace holdfast::cli {

class JobRunner {
 public:
  /// Starts the guard. Call this before this process opens anything that the guard must not have. `name`: the queue's
  /// name.
  JobRunner(const Words& command, const PassedSignals& signals, const std::string& name);
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  /// Starts the command with the text as its standard input. Returns 0, or an errno value on failure.
  int start(const std::string& text);
  /// Sends a signal to the command's process group.
  void signal(int signal) const noexcept;
  /// Returns whether the command has ended; sets its status, as waitpid(2) returns it. If the command has ended and
  /// `all` is set, kills the rest of its process group.
  bool has_ended(int& status, bool all) noexcept;

 private:
  void tell_guard(pid_t group) const noexcept;
  [[noreturn]] void become_command(pid_t worker, int input, int failure) noexcept;

  const PassedSignals& signals_;
  Words words_;
  std::vector<char*> values_;  // for exec, which must not allocate
  Descriptor guard_;           // a pipe
  pid_t pid_ = 0;              // of the command
};

}  // namespace holdfast::cli
