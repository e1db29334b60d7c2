// The agents of `holdfast run --agent`: one for each cluster that was named, for as long as the master runs. Where
// another agent acts already, as that of systemd, it stands by.
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

  /// False, after a sentence: they cannot be run.
  bool start();
  enum class End { none, started_again, hopeless };
  /// What follows from the end of that child. none: it is no agent. hopeless: its configuration is wrong, as was said.
  End on_end(pid_t child, int status);
  /// Starts again what is due.
  void act_on_time(Time now);
  std::optional<Time> next_deadline() const;
  /// Ends them, and waits for that. Call it when the workers have ended: they need their locks no longer.
  void stop();

 private:
  struct Agent {
    std::string cluster;
    pid_t pid = 0;  // 0: it does not run
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
