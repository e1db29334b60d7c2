// The agent that `holdfast lock --agent` starts where none runs.
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

  /// Starts one unless one attends the dictionary, or has been started and is about to. Call it from time to time: one
  /// that another process had started may have ended.
  void ensure(holdfast_dict* dict);
  /// The same, and waits until the cluster is to be had, or, where the wait for the lock has no end, until there is an
  /// agent. The exit status, 0 if so; all else was said, unless a signal() has come.
  int ensure_and_wait(holdfast_dict* dict);
  /// The one that ended the wait, and is to end this process; 0: none has.
  int signal() const noexcept { return signal_; }
  /// Ends it, if it was started here. Another process that needs one starts its own then, in time for its locks.
  void stop();

 private:
  bool has_ended();
  /// For a moment. 0: none has come that would end a process.
  int await_signal() const;
  void start();
  /// What the agent has said so far.
  void pass_messages_on() const;
  int complain() const;

  const LockOptions& options_;
  const PassedSignals& signals_;
  pid_t pid_ = 0;
  int signal_ = 0;
  bool gave_way_ = false;  // the one that has ended, to another agent
  Descriptor messages_;    // a file in memory with what it says, unless that is said at once
};

}  // namespace holdfast::cli
