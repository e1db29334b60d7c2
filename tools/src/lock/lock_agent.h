// The agent that `holdfast lock --agent` starts if none runs.
#pragma once

#include <sys/types.h>

#include "cli/descriptor.h"
#include "holdfast.h"
#include "lock/lock_options.h"
#include "lock/passed_signals.h"

namespace holdfast::cli {

class LockAgent {
 public:
  LockAgent(const LockOptions& options, const PassedSignals& signals) : options_(options), signals_(signals) {}

  /// Starts an agent unless one serves the dictionary or is about to. Call it from time to time: an agent that another
  /// process started may have ended.
  void ensure(holdfast_dict* dict);
  /// Does the same, and waits until the cluster is available; if the wait for the lock is unlimited, only until there
  /// is an agent. Returns the exit status, 0 on success; messages have been printed, unless a signal() has arrived.
  int ensure_and_wait(holdfast_dict* dict);
  /// Returns the agent's pid if it was started here and has not ended; 0 otherwise.
  pid_t pid() const noexcept { return pid_; }
  /// Called by a parent that has reaped that child with that status.
  void note_end(pid_t child, int status) noexcept;
  /// Returns the signal that ended the wait and is to end this process; 0: none.
  int signal() const noexcept { return signal_; }
  /// Ends the agent if it was started here. Another process that needs one then starts its own, in time to keep its
  /// locks.
  void stop();

 private:
  bool has_ended();
  /// Waits for a moment. Returns a signal that would end a process; 0: none.
  int await_signal() const;
  void start();
  /// Prints the agent's messages so far.
  void pass_messages_on() const;
  int complain() const;

  const LockOptions& options_;
  const PassedSignals& signals_;
  pid_t pid_ = 0;
  int signal_ = 0;
  bool gave_way_ = false;  // the agent that ended, in favour of another one
  Descriptor messages_;    // memory file with its messages, unless they are printed at once
};

}  // namespace holdfast::cli
