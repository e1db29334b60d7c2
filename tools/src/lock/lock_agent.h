// The agent that `holdfast lock --agent` starts if no agent is running.
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

  /// Starts an agent unless an agent serves the dictionary or is starting. Call this repeatedly, because an agent that
  /// another process started may have ended.
  void ensure(holdfast_dict* dict);
  /// Calls ensure(), and waits until the cluster is available. If the wait for the lock is unlimited, waits only until
  /// there is an agent. Returns the exit status, which is 0 on success. On failure, prints a message, unless a signal()
  /// has arrived.
  int ensure_and_wait(holdfast_dict* dict);
  /// Returns the agent's pid if this process started the agent and it has not ended, otherwise 0.
  pid_t pid() const noexcept { return pid_; }
  /// Call this when this process has reaped a child. `status` comes from waitpid.
  void note_end(pid_t child, int status) noexcept;
  /// Returns the signal that ended the wait and must also end this process, or 0 if there was none.
  int signal() const noexcept { return signal_; }
  /// Ends the agent if this process started it. If another process needs an agent, that process then starts one, early
  /// enough to keep its locks.
  void stop();

 private:
  bool has_ended();
  /// Waits for a short time. Returns a signal that was received and would end the process, or 0 if there is none.
  int await_signal() const;
  void start();
  /// Prints the messages that the agent has written so far.
  void pass_messages_on() const;
  int complain() const;

  const LockOptions& options_;
  const PassedSignals& signals_;
  pid_t pid_ = 0;
  int signal_ = 0;
  bool gave_way_ = false;  // the agent ended because another agent is running
  Descriptor messages_;    // memory file with the agent's messages, unless they are printed immediately
};

}  // namespace holdfast::cli
