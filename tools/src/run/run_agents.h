// The agents of `holdfast run --agent`. There is one for each named cluster, as long as the master runs. If another
// agent is already active, for example because systemd started it, our agent is on standby.
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

  /// Starts the agents. If they cannot run, prints an error and returns false.
  bool start();
  enum class End { none, started_again, hopeless };
  /// Handles the end of a child. Returns `none` if the child is not an agent, and `hopeless` if the agent has reported
  /// that its configuration is wrong.
  End on_end(pid_t child, int status);
  /// Restarts the agents that have waited long enough.
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
