#include "run/master.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "cli/message.h"
#include "cli/signals.h"
#include "run/worker.h"

namespace holdfast::cli {

namespace {

bool has_terminal() {
  const Descriptor terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return terminal.get() >= 0;
}

double seconds(std::chrono::duration<double> duration) { return duration.count(); }

}  // namespace

Master::Master(const RunOptions& options)
    : options_(options),
      pid_(::getpid()),
      had_terminal_(has_terminal()),
      agents_(options, signals_),
      places_(static_cast<std::size_t>(options.workers)) {}

int Master::run() {
  if (!script_compiles()) return EXIT_FAILURE;
  if (!agents_.start() || !start_all()) {
    failed_ = true;
    discard_all();
  }
  while (!workers_.empty() || respawn_pending()) {
    wait();
    handle_signals();
    act_on_time();
  }
  agents_.stop();
  if (stop_signal_ != 0) die_by(stop_signal_);
  return failed_ ? EXIT_FAILURE : EXIT_SUCCESS;
}

// Compiles the script in a child. If the master itself used Lua, its workers would inherit the Lua state.
bool Master::script_compiles() {
  const pid_t child = ::fork();
  if (child < 0) {
    say("cannot start a process: {}", std::strerror(errno));
    return false;
  }
  if (child == 0) {
    follow_parent(pid_, SIGKILL);
    std::_Exit(compiles(options_.script) ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) say("the process that was compiling {} {}", options_.script.path, describe_end(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

bool Master::start_worker(int number) try {
  ChannelPair channel = make_channel();
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) become_worker(number, std::move(channel));
  workers_.push_back({number, child, std::move(channel.master), Clock::now()});
  return true;
} catch (const std::system_error& error) {
  say("cannot start worker {}: {}", number, error.what());
  return false;
}

void Master::become_worker(int number, ChannelPair channel) {
  follow_parent(pid_, SIGTERM);
  // If the master's ends of the channels stayed open here, the workers would not notice the master's death.
  channel.master.reset();
  for (Worker& worker : workers_) worker.channel.reset();
  signals_.become_worker();
  be_worker({number, options_.workers, pid_}, options_.script, std::move(channel.worker));
}

bool Master::start_all() {
  for (int number = 0; number < options_.workers; ++number)
    if (!start_worker(number)) return false;
  return true;
}

void Master::wait() {
  int timeout = -1;
  if (const std::optional<Time> deadline = next_deadline()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  pollfd poll_signals{signals_.descriptor(), POLLIN, 0};
  ::poll(&poll_signals, 1, timeout);
}

void Master::handle_signals() {
  while (const std::optional<signalfd_siginfo> info = signals_.next()) {
    switch (info->ssi_signo) {
      case SIGTERM:
      case SIGINT:
        stop(static_cast<int>(info->ssi_signo));
        break;
      case SIGQUIT:
        quit();
        break;
      case SIGHUP:
        hang_up();
        break;
      default:
        reap();
        break;
    }
  }
}

void Master::act_on_time() {
  const Time now = Clock::now();
  if (kill_at_ && *kill_at_ <= now) {
    for (const Worker& worker : workers_)
      say("worker {} (pid {}) did not end within {:g} s; killing it", worker.number, worker.pid,
          seconds(options_.grace));
    kill_all();
  }
  agents_.act_on_time(now);
  for (std::size_t number = 0; number < places_.size(); ++number) {
    Place& place = places_[number];
    if (!place.respawn_at || *place.respawn_at > now) continue;
    place.respawn_at.reset();
    if (!start_worker(static_cast<int>(number))) place.respawn_at = now + place.backoff.next(Backoff::Duration::zero());
  }
}

void Master::reload() {
  if (phase_ != Phase::running) return;
  const std::size_t old_count = workers_.size();
  if (!script_compiles() || !start_all()) {
    for (std::size_t i = old_count; i < workers_.size(); ++i) discard(workers_[i]);
    say("reload failed; the old workers keep running");
    return;
  }
  std::fill(places_.begin(), places_.end(), Place{});
  for (std::size_t i = 0; i < old_count; ++i) {
    workers_[i].retired = true;
    send_command(workers_[i].channel, Command::quit);
  }
}

void Master::quit() {
  if (phase_ != Phase::running) return;
  phase_ = Phase::quitting;
  give_up_respawns();
  for (const Worker& worker : workers_) send_command(worker.channel, Command::quit);
}

void Master::stop(int signal) {
  if (phase_ == Phase::stopping) {
    kill_all();
    return;
  }
  stop_signal_ = signal;
  give_up_respawns();
  discard_all();
}

void Master::hang_up() {
  if (!had_terminal_ || has_terminal()) {
    reload();
  } else if (!signals_.hangup_was_ignored()) {
    stop(SIGHUP);
  }
}

void Master::discard(Worker& worker) {
  worker.discarded = true;
  ::kill(worker.pid, SIGTERM);
}

void Master::discard_all() {
  phase_ = Phase::stopping;
  for (Worker& worker : workers_) discard(worker);
  kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.grace);
}

void Master::kill_all() {
  for (const Worker& worker : workers_) ::kill(worker.pid, SIGKILL);
  kill_at_.reset();
}

void Master::give_up_respawns() {
  failed_ = failed_ || respawn_pending();
  for (Place& place : places_) place.respawn_at.reset();
}

void Master::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto ended = std::find_if(workers_.begin(), workers_.end(), [pid](const Worker& w) { return w.pid == pid; });
    if (ended == workers_.end()) {
      if (agents_.on_end(pid, status) == RunAgents::End::hopeless) {
        failed_ = true;
        discard_all();
      }
      continue;
    }
    const Worker worker = std::move(*ended);
    workers_.erase(ended);
    on_end(worker, status);
  }
}

void Master::on_end(const Worker& worker, int status) {
  const bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  if (worker.discarded || succeeded) return;
  const std::string what = fmt::format("worker {} (pid {}) {}", worker.number, worker.pid, describe_end(status));
  if (!options_.respawn || phase_ != Phase::running || worker.retired) {
    failed_ = true;
    say("{}", what);
    return;
  }
  Place& place = places_[static_cast<std::size_t>(worker.number)];
  const Time now = Clock::now();
  const Backoff::Duration wait = place.backoff.next(now - worker.started);
  place.respawn_at = now + wait;
  say("{}; restarting it in {:g} s", what, seconds(wait));
}

bool Master::respawn_pending() const {
  return std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.respawn_at.has_value(); });
}

std::optional<Master::Time> Master::next_deadline() const {
  std::optional<Time> first = kill_at_;
  if (const auto again = agents_.next_deadline(); again && (!first || *again < *first)) first = again;
  for (const Place& place : places_)
    if (place.respawn_at && (!first || *place.respawn_at < *first)) first = place.respawn_at;
  return first;
}

}  // namespace holdfast::cli
