// Reads the master's signals from a descriptor instead of handling them: none gets lost and none interrupts.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <optional>
#include <string>

#include "cli/descriptor.h"

namespace holdfast::cli {

class SignalQueue {
 public:
  /// Blocks TERM, INT, QUIT, HUP and CHLD for good and collects them from now on. Ignores PIPE, because a broken log
  /// pipe must not end the master. Throws std::system_error.
  SignalQueue();

  /// Returns a descriptor that is readable when next() has something.
  int descriptor() const noexcept { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next();

  /// For a forked child: restores the signals that a program expects, except that INT, QUIT and HUP do nothing. A
  /// terminal sends those to the whole process group, but the master acts on them. Programs that the child executes get
  /// them as this program found them (nohup), so the others are caught instead of ignored.
  void become_worker();

  /// Returns whether HUP was ignored when the program started (nohup).
  bool hangup_was_ignored() const noexcept { return sigismember(&ignored_, SIGHUP) == 1; }

 private:
  Descriptor descriptor_;
  sigset_t old_mask_;
  struct sigaction old_pipe_ {};
  sigset_t ignored_;  // signals that were ignored when the program started
};

/// Ends this process by that signal, so that its parent sees the reason. Async-signal-safe.
[[noreturn]] void die_by(int signal);

/// Describes how a child ended: "exited with status 1", "was killed by signal 9 (Killed)". `status` comes from waitpid.
std::string describe_end(int status);

}  // namespace holdfast::cli
