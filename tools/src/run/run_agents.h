// The agents of `holdfast run --agent`: one for each named cluster, as long as the master runs. If another agent is
// already active, such as one that systemd started, our agent is on standby.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "run/backoff.h"
#include "run/run_options.h"

namespace holdfast::cli {

class RunAgents {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  RunAgents(const RunOptions& options, SignalQueue& signals);

  /// Starts the agents. Returns false, after an error message, if they cannot run.
  bool start();
  enum class End { none, started_again, hopeless };
  /// Handles the end of a child. Returns `none` if the child is not an agent, and `hopeless` if the agent has reported
  /// that its configuration is wrong.
  End on_end(pid_t child, int status);
  /// Restarts the agents whose wait is over.
  void act_on_time(Time now);
  std::optional<Time> next_deadline() const;
  /// Ends the agents and waits for their end. Call this when the workers have ended and no longer need their locks.
  void stop();

 private:
  struct Agent {
    std::string cluster;
    pid_t pid = 0;  // 0: not running
    Time started;
    std::optional<Time> again_at;
    Backoff backoff;
  };

  bool start(Agent& agent);
  [[noreturn]] void become(const Agent& agent);
  bool running() const;
  void reap();

  const RunOptions& options_;
  SignalQueue& signals_;
  const pid_t master_;
  std::vector<Agent> agents_;
};

}  // namespace holdfast::cli
