// The master starts the workers, watches them, and acts on signals. It sleeps in one poll() and never runs Lua.
//
//   signal      | running                                     | quitting           | stopping
//   ------------+---------------------------------------------+--------------------+------------------
//   HUP         | new workers, the old ones quit              | nothing            | nothing
//   QUIT        | quitting: every worker receives quit        | nothing            | nothing
//   TERM, INT   | stopping: TERM to the workers, KILL later   | stopping           | KILL immediately
//   CHLD        | a worker that failed may be started again   | reap               | reap
//
// If the loss of the terminal causes a HUP, it counts as TERM.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "cli/signals.h"
#include "run/backoff.h"
#include "run/channel.h"
#include "run/run_agents.h"
#include "run/run_options.h"

namespace holdfast::cli {

class Master {
 public:
  explicit Master(const RunOptions& options);

  /// Runs until the last worker has ended. Returns 0 if all workers succeeded, otherwise 1. If a signal stopped the
  /// master, terminates the process by that signal.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  enum class Phase { running, quitting, stopping };

  struct Worker {
    int number;
    pid_t pid;
    Descriptor channel;
    Time started;
    bool retired = false;    // told to quit after a reload, so it is not restarted
    bool discarded = false;  // killed by the master, so its end is not reported
  };

  /// The state of a worker number, which outlives the processes with that number.
  struct Place {
    Backoff backoff;
    std::optional<Time> respawn_at;
  };

  bool script_compiles();
  bool start_worker(int number);
  bool start_all();
  [[noreturn]] void become_worker(int number, ChannelPair channel);

  void wait();
  void handle_signals();
  void act_on_time();

  void reload();
  void quit();
  void stop(int signal);
  void hang_up();
  void discard(Worker& worker);
  void discard_all();
  void kill_all();
  void give_up_respawns();

  void reap();
  void on_end(const Worker& worker, int status);

  bool respawn_pending() const;
  std::optional<Time> next_deadline() const;

  const RunOptions& options_;
  const pid_t pid_;
  const bool had_terminal_;
  SignalQueue signals_;
  RunAgents agents_;
  Phase phase_ = Phase::running;
  std::vector<Worker> workers_;  // the living workers
  std::vector<Place> places_;    // indexed by worker number
  std::optional<Time> kill_at_;
  int stop_signal_ = 0;
  bool failed_ = false;
};

}  // namespace holdfast::cli
