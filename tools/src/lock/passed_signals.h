// Collects the signals of a process that waits for another process, so that it can pass them on.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <optional>

#include "cli/descriptor.h"

namespace holdfast::cli {

class PassedSignals {
 public:
  /// Collects TERM, INT, HUP, QUIT, USR1, USR2, WINCH, TSTP, CONT and CHLD from now on. Signals that were ignored when
  /// the program started (nohup) remain ignored, except CHLD. Ignores PIPE. Throws std::system_error.
  PassedSignals();

  /// Returns a descriptor that is readable when next() has something.
  int descriptor() const noexcept { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next() const;

  /// Restores the signal mask and PIPE in a forked child.
  void restore() const noexcept;

  /// Stops this process, as a terminal would, until CONT arrives, and consumes the CONT. If CONT arrives before the
  /// stop, the process does not stop. Returns false if there was no CONT, for example because the kernel does not let a
  /// terminal stop this process.
  static bool stop_here() noexcept;

 private:
  sigset_t before_{};
  struct sigaction pipe_ {};
  Descriptor descriptor_;
};

}  // namespace holdfast::cli
