// Reads the signals of the master (`holdfast run`) from a descriptor instead of handling them, so that no signal gets
// lost or interrupts a call.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <optional>
#include <string>

#include "cli/descriptor.h"

namespace holdfast::cli {

class SignalQueue {
 public:
  /// Blocks TERM, INT, QUIT, HUP and CHLD permanently, so that next() receives them. Ignores PIPE, because a broken log
  /// pipe must not end the master. Throws std::system_error.
  SignalQueue();

  /// Returns a descriptor that is readable when next() has a signal.
  int descriptor() const noexcept { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next();

  /// Restores the signal dispositions and mask that a program expects, in a forked child. However, INT, QUIT and HUP do
  /// nothing. A terminal sends these three to the whole process group, but the master acts on them. They are caught,
  /// not ignored, so that a program that the child executes starts with the dispositions with which this program
  /// started (nohup).
  void become_worker();

  /// Returns whether HUP was ignored when the program started (nohup).
  bool hangup_was_ignored() const noexcept { return sigismember(&ignored_, SIGHUP) == 1; }

 private:
  Descriptor descriptor_;
  sigset_t old_mask_;
  struct sigaction old_pipe_ {};
  sigset_t ignored_;  // signals that were ignored when the program started
};

/// Ends this process by the signal, so that the parent sees why it ended. Async-signal-safe.
[[noreturn]] void die_by(int signal);

/// Makes the kernel send `signal` to this process when `parent` dies. Ends the process if the parent is already dead.
void follow_parent(pid_t parent, int signal);

/// Describes how a child ended: "exited with status 1", "was killed by signal 9 (Killed)". `status` comes from waitpid.
std::string describe_end(int status);

}  // namespace holdfast::cli
