// Runs the commands of `holdfast queue work`, one at a time. Each command has its own process group, so that a
// terminal's Ctrl-C reaches only the worker, which then lets the command finish.
//
// When a worker dies, its job is retried immediately, so the command must end at the same time. The kernel kills the
// command itself. A guard process, which has nothing open but a pipe from the worker, kills the rest of the command's
// group.
#pragma once

#include <sys/types.h>

#include <string>

#include "cli/arguments.h"
#include "cli/descriptor.h"
#include "lock/passed_signals.h"

namespace holdfast::cli {

class JobRunner {
 public:
  /// Starts the guard. Construct this object before this process opens any file that the guard must not keep open.
  /// `name`: the queue's name.
  JobRunner(const Words& command, const PassedSignals& signals, const std::string& name);
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  /// Starts the command with the text as its standard input. Returns 0, or an errno value on failure.
  int start(const std::string& text);
  /// Sends a signal to the command's process group.
  void signal(int signal) const noexcept;
  /// Returns whether the command has ended. If so, sets `status` as waitpid(2) does, and if `all` is true, kills the
  /// rest of the command's process group.
  bool has_ended(int& status, bool all) noexcept;

 private:
  void tell_guard(pid_t group) const noexcept;
  [[noreturn]] void become_command(pid_t worker, int input, int failure) noexcept;

  const PassedSignals& signals_;
  Words words_;
  std::vector<char*> values_;  // for exec, which must not allocate
  Descriptor guard_;           // a pipe to the guard
  pid_t pid_ = 0;              // the command's pid
};

}  // namespace holdfast::cli
