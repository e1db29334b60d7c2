// The agent that `holdfast lock --agent` starts where none runs.
#pragma once

#include <sys/types.h>

#include "cli/descriptor.h"
#include "cli/lock_options.h"
#include "cli/passed_signals.h"
#include "holdfast.h"

namespace holdfast::cli {

class LockAgent {
 public:
  LockAgent(const LockOptions& options, const PassedSignals& signals) : options_(options), signals_(signals) {}

  /// Starts one unless one attends the dictionary, or has been started and is about to. Call it from time to time: one
  /// that another process had started may have ended.
  void ensure(holdfast_dict* dict);
  /// The same, and waits until the cluster is to be had. The exit status, 0 if it is; all else was said.
  int ensure_and_wait(holdfast_dict* dict);
  /// Ends it, if it was started here. Another process that needs one starts its own then, in time for its locks.
  void stop();

 private:
  bool has_ended();
  void start();
  /// What the agent has said so far.
  void pass_messages_on() const;
  int complain() const;

  const LockOptions& options_;
  const PassedSignals& signals_;
  pid_t pid_ = 0;
  bool gave_way_ = false;  // the one that has ended, to another agent
  Descriptor messages_;    // a file in memory with what it says, unless that is said at once
};

}  // namespace holdfast::cli
