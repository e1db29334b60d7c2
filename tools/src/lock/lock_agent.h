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

  /// Starts an agent unless one serves the dictionary or is starting. Call this from time to time, because an agent
  /// that another process started may have ended.
  void ensure(holdfast_dict* dict);
  /// Calls ensure(), and waits until the cluster is available or, if the wait for the lock is unlimited, until there is
  /// an agent. Returns the exit status, which is 0 on success. On failure, it has printed a message, unless a signal()
  /// has arrived.
  int ensure_and_wait(holdfast_dict* dict);
  /// Returns the agent's pid if it was started here and has not ended; 0 otherwise.
  pid_t pid() const noexcept { return pid_; }
  /// Call this when this process has reaped a child with that status.
  void note_end(pid_t child, int status) noexcept;
  /// Returns the signal that ended the wait, and by which this process is to end; 0 if there was none.
  int signal() const noexcept { return signal_; }
  /// Ends the agent if it was started here. If another process needs an agent, it then starts its own, in time to keep
  /// its locks.
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
  bool gave_way_ = false;  // the agent has ended in favour of another one
  Descriptor messages_;    // memory file with the agent's messages, unless they are printed immediately
};

}  // namespace holdfast::cli
