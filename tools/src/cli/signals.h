// The master's signals, read from a descriptor instead of handled: none is lost and none interrupts.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <optional>
#include <string>

#include "cli/descriptor.h"

namespace holdfast::cli {

class SignalQueue {
 public:
  /// Blocks TERM, INT, QUIT, HUP and CHLD for good and collects them from now on. Ignores PIPE: a log that is gone must
  /// not end the master. Throws std::system_error.
  SignalQueue();

  /// Readable when next() has something.
  int descriptor() const noexcept { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next();

  /// In a forked child: the signals as a program expects them, except that INT, QUIT and HUP do nothing. A terminal
  /// sends those to the whole process group, and they are the master's to act on. Programs that the child executes get
  /// them as this program found them (nohup), so the others are caught instead of ignored.
  void become_worker();

  /// Whether HUP was ignored when the program started (nohup).
  bool hangup_was_ignored() const noexcept { return sigismember(&ignored_, SIGHUP) == 1; }

 private:
  Descriptor descriptor_;
  sigset_t old_mask_;
  struct sigaction old_pipe_ {};
  sigset_t ignored_;  // those of them that were ignored when the program started
};

/// Ends this process by that signal, so that its parent sees why it ended. Calls only what a handler may call.
[[noreturn]] void die_by(int signal);

/// How a child has ended: "exited with status 1", "was killed by signal 9 (Killed)". `status` is waitpid's.
std::string describe_end(int status);

}  // namespace holdfast::cli
