// `holdfast queue work`: runs a command for each job.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "base/name.h"
#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/paths.h"
#include "cli/signals.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "lock/passed_signals.h"
#include "queue/job_runner.h"
#include "queue/queue_command.h"

namespace holdfast::cli {

namespace {

using inspect::Json;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct WorkOptions {
  bool once = false;
  bool drain = false;
  double retry_delay = 1;
  double exptime = kNever;
  double kill_after = 10;
};

class Worker {
 public:
  Worker(const WorkOptions& options, LuaQueue& queue, PassedSignals& signals, JobRunner& runner)
      : options_(options), queue_(queue), signals_(signals), runner_(runner) {}

  void run(const std::string& command) {
    constexpr double kTakeSeconds = 0.5;  // how often to check for signals
    while (!stops_) {
      const LuaQueue::Answer taken = queue_.call("take", {{"timeout", kTakeSeconds}});
      receive_signals();
      if (taken.error == "timeout" && options_.drain) return;
      if (taken.error == "timeout") continue;
      if (taken.value.is_null()) fail("{}", taken.error);
      run_job(taken.value, command);
      if (options_.once) return;
    }
  }

 private:
  /// Runs the command for the job. Ends `holdfast queue work` if the command cannot be run.
  void run_job(const Json& job, const std::string& command) {
    const std::string name = job_in_words(job);
    ::setenv("HOLDFAST_JOB_NUMBER", name.substr(0, name.find('/')).c_str(), 1);
    ::setenv("HOLDFAST_JOB_ATTEMPTS", name.substr(name.find('/') + 1).c_str(), 1);
    if (const int error = runner_.start(job_as_bytes(job["value"])); error != 0)
      fail("cannot run {}: {}", quote(command), std::strerror(error));  // when this process ends, the job is given back
    is_running_ = true;
    kill_at_ = kNever;
    end_at_ = holdfast_now() + options_.exptime;
    int status = 0;
    while (!runner_.has_ended(status, kill_at_ != kNever)) {
      wait();
      receive_signals();
      end_in_time(name);
    }
    is_running_ = false;
    conclude(job, name, command, status);
  }

  void wait() const {
    constexpr double kLongestSeconds = 1e6;  // poll() takes an int
    const double left = std::clamp(std::min(end_at_, kill_at_) - holdfast_now(), 0.0, kLongestSeconds);
    pollfd signals{signals_.descriptor(), POLLIN, 0};
    ::poll(&signals, 1, static_cast<int>(left * 1e3) + 1);
  }

  void receive_signals() {
    while (const auto info = signals_.next()) receive(static_cast<int>(info->ssi_signo));
  }

  // Handles a signal. After the first signal, the command may finish. The second signal ends the command.
  void receive(int signal) {
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) {
      if (stops_ && is_running_) end_command(signal);
      stops_ = true;
    } else if (signal == SIGTSTP) {
      if (is_running_) runner_.signal(SIGTSTP);
      PassedSignals::stop_here();
      if (is_running_) runner_.signal(SIGCONT);
    } else if (is_running_ && (signal == SIGUSR1 || signal == SIGUSR2)) {
      runner_.signal(signal);
    }
  }

  void end_command(int signal) {
    runner_.signal(signal);
    kill_at_ = std::min(kill_at_, holdfast_now() + options_.kill_after);
    end_at_ = kNever;
  }

  void end_in_time(const std::string& name) {
    constexpr double kAgainSeconds = 0.2;
    const double now = holdfast_now();
    if (now >= end_at_) {
      say("job {} has run for {:g} s; sending TERM to the command, and KILL after {:g} s", name, options_.exptime,
          options_.kill_after);
      end_command(SIGTERM);
    } else if (now >= kill_at_) {
      runner_.signal(SIGKILL);
      kill_at_ = now + kAgainSeconds;
    }
  }

  /// Ends the job, or gives it back.
  void conclude(const Json& job, const std::string& name, const std::string& command, int status) {
    const double delay = delay_after(job["attempts"].get<double>());
    const LuaQueue::Answer answer = status == 0 ? queue_.call("finish") : queue_.call("give_back", {{"delay", delay}});
    std::string outcome = fmt::format("the job will be retried in {:g} s", delay);
    if (answer.value.is_null()) outcome = "the job was lost: " + answer.error;
    if (answer.error == "dead") outcome = "the job is dead";
    if (status != 0 || answer.value.is_null())
      say("job {}: {} {}; {}", name, quote(command), describe_end(status), outcome);
  }

  /// Doubles the delay with each attempt, up to an hour.
  double delay_after(double attempts) const {
    constexpr double kMost = 3600;
    return std::max(options_.retry_delay, std::min(options_.retry_delay * std::exp2(attempts - 1), kMost));
  }

  const WorkOptions& options_;
  LuaQueue& queue_;
  PassedSignals& signals_;
  JobRunner& runner_;
  bool stops_ = false;
  bool is_running_ = false;
  double end_at_ = kNever;
  double kill_at_ = kNever;
};

void declare(Arguments& arguments, WorkOptions& options) {
  arguments.add_flag("--once", options.once, "End after one job");
  arguments.add_flag("--drain", options.drain, "End when no job can be taken");
  arguments.add_value("--retry-delay", "SECONDS",
                      "Retry a job SECONDS after its command failed; the delay doubles with each attempt;\n"
                      "default: 1",
                      read_seconds, options.retry_delay);
  arguments.add_value("--exptime", "SECONDS",
                      "End the command after SECONDS (default: never): TERM, then KILL after --kill-after",
                      read_seconds, options.exptime);
  arguments.add_value("--kill-after", "SECONDS",
                      "Send KILL if the command has not ended SECONDS after it was told to; default: 10", read_seconds,
                      options.kill_after);
}

int run_work(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::nothing);
  WorkOptions options;
  command.may_create();
  command.may_take();
  declare(arguments, options);
  arguments.pass_on_from_dashes({}, 1, is_program);
  arguments.parse();
  if (arguments.words().empty()) arguments.refuse("no NAME was given");
  if (arguments.words().size() > 1)
    arguments.refuse("unexpected " + quote(arguments.word(1)) + ": the command follows \"--\"");
  if (arguments.passed_on().empty()) arguments.refuse("no COMMAND was given");
  command.check();
  const std::string program = arguments.passed_on().front();
  // Without this check, every job would use up its attempts.
  if (!is_program(program)) fail("cannot run {}: there is no such program in $PATH", quote(program));
  command.world().apply();
  PassedSignals signals;
  JobRunner runner(arguments.passed_on(), signals, command.name());
  Worker(options, command.open(), signals, runner).run(program);
  return exit_status::kYes;
}

}  // namespace

const Subcommand kQueueWork{
    "queue work",
    "Run a command for each job",
    "NAME COMMAND [ARGUMENTS...]\n"
    "       holdfast queue work [OPTIONS] NAME -- COMMAND [ARGUMENTS...]",
    "Take jobs one after the other, and run COMMAND for each, with the job as its standard input.",
    R"(If COMMAND exits with status 0, the job is done; otherwise it is retried, or is dead after
--max-attempts. $HOLDFAST_JOB_NUMBER and $HOLDFAST_JOB_ATTEMPTS identify the attempt. If the
worker is killed, COMMAND is killed, too, and another worker gets the job.

Signals to the worker:
  TERM, INT, HUP, QUIT  finish the current job, then end; a second signal goes to COMMAND

Exit status: 0 the worker ended after a signal, --once or --drain; 2 error.)",
    run_work};

}  // namespace holdfast::cli
