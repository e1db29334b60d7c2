// Signals of a process that waits for another in its place, and passes on what it gets.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <optional>

#include "cli/descriptor.h"

namespace holdfast::cli {

class PassedSignals {
 public:
  /// Collects TERM, INT, HUP, QUIT, USR1, USR2, WINCH, TSTP, CONT and CHLD from now on; those that were ignored (nohup)
  /// stay so, but for CHLD. Ignores PIPE. Throws std::system_error.
  PassedSignals();

  /// Readable when next() has something.
  int descriptor() const noexcept { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next() const;

  /// In a forked child: signals are as they were found.
  void restore() const noexcept;

  /// Stops this process as a terminal would, until it is continued. Takes that CONT, also one that came before it
  /// stopped: then it does not. False if there was none, as where the kernel lets no terminal stop it.
  static bool stop_here() noexcept;

 private:
  sigset_t before_{};
  struct sigaction pipe_ {};
  Descriptor descriptor_;
};

}  // namespace holdfast::cli
