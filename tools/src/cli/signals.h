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

  /// In a forked child, restores the signal dispositions and the mask that a program expects. However, the child's
  /// handlers for INT, QUIT and HUP do nothing, because a terminal sends these signals to the whole process group, and
  /// the master acts on them. The child does not ignore them, so a program that it executes starts with the same
  /// dispositions as this program (nohup).
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

/// Makes the kernel send `signal` to this process when `parent` dies. If the parent is already dead, ends this process.
void follow_parent(pid_t parent, int signal);

/// Describes how a child ended, for example "exited with status 1" or "was killed by signal 9 (Killed)". `status` comes
/// from waitpid.
std::string describe_end(int status);

}  // namespace holdfast::cli
