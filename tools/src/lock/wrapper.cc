// `holdfast lock`: runs a command while holding a lock.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/name.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "lock/lock_agent.h"
#include "lock/lock_guard.h"
#include "lock/lock_hold.h"
#include "lock/lock_options.h"
#include "lock/lock_refusal.h"
#include "lock/lock_taker.h"
#include "lock/passed_signals.h"
#include "run/worker.h"

namespace holdfast::cli {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// How often to check that the lock is still held, if it can be lost.
constexpr double kLookSeconds = 0.2;

/// How often a child that waits for its parent checks whether the parent is stopped.
constexpr int kLookAtParentMs = 50;

// --- the child ---

bool is_parent_stopped() {
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(::getppid()));
  return stat && stat->is_stopped();
}

void await_parent() {
  while (is_parent_stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(kLookAtParentMs));
}

/// The parent acknowledges each hold that it receives, once the guard runs that will end the hold even if the parent
/// dies.
enum class Answer { guarded, stopped, gone };

Answer await_answer(int channel, int look_ms) {
  pollfd answer{channel, POLLIN, 0};
  while (::poll(&answer, 1, look_ms) <= 0)
    if (look_ms >= 0 && is_parent_stopped()) return Answer::stopped;
  char word = 0;
  return ::recv(channel, &word, 1, 0) == 1 ? Answer::guarded : Answer::gone;
}

/// Takes the lock, and waits until it is guarded. A stopped parent starts no guard, possibly for a long time; so others
/// get the lock in the meantime. Returns nothing if the lock is held and guarded, otherwise the exit status.
std::optional<int> take_guarded(LockTaker& taker, int channel) {
  for (;;) {
    if (const auto status = taker.take()) return status;
    if (is_parent_stopped()) {
      taker.give_back();
      await_parent();
      continue;
    }
    send_hold(channel, taker.grant(), taker.hold());
    Answer answer = await_answer(channel, kLookAtParentMs);
    if (answer == Answer::guarded) return std::nullopt;
    if (answer == Answer::stopped) {
      send_given_back(channel);
      taker.give_back();
      answer = await_answer(channel, -1);
    }
    if (answer == Answer::gone) return lock_status::kSystem;  // its hold ends with this process
  }
}

/// Runs in the process that becomes the command. `channel` is -1 without a parent. Returns only if the command does not
/// start.
int take_and_become(const LockOptions& options, int channel) {
  LockTaker taker(options);
  const auto refused = channel >= 0 ? take_guarded(taker, channel) : taker.take();
  if (refused) return *refused;
  int status = channel >= 0 ? taker.confirm() : 0;
  if (status == 0) status = taker.become_command();
  // The child has given the lock back itself; the parent must not take this for a loss.
  if (channel >= 0) send_given_back(channel);
  return status;
}

/// The parent: passes signals on, notices if the lock is lost, and ends the hold with the command.
class Wrapper {
 public:
  explicit Wrapper(const LockOptions& options) : options_(options), agent_(options, signals_) {}

  int run() {
    if (options_.agent) {
      if (const int status = prepare_agent()) {
        agent_.stop();
        if (agent_.signal() != 0) die_by(agent_.signal());
        return status;
      }
    }
    start();
    while (!ended_) {
      wait();
      receive();
      pass_signals();
      reap();
      look();
    }
    end_hold();
    agent_.stop();
    return end_as_command();
  }

 private:
  int prepare_agent() {
    int status = 0;
    dict_ = open_dictionary(options_, status);
    return dict_ == nullptr ? status : agent_.ensure_and_wait(dict_);
  }

  void start() {
    // Check from now on: the agent that we found may end while the command still waits for the lock.
    if (options_.agent) look_at_ = holdfast_now() + kLookSeconds;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    channel_ = Descriptor(ends[0]);
    Descriptor other(ends[1]);
    const pid_t self = ::getpid();
    command_ = ::fork();
    if (command_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (command_ > 0) return;
    // A waiting child ends with this process; a running command does not.
    follow_master(self, SIGKILL);
    signals_.restore();
    channel_.reset();
    std::exit(take_and_become(options_, other.get()));
  }

  void wait() {
    std::array<pollfd, 2> both{{{signals_.descriptor(), POLLIN, 0}, {channel_.get(), POLLIN, 0}}};
    const double left = std::max(0.0, look_at_ - holdfast_now());
    const int timeout = left > 1e6 ? -1 : static_cast<int>(std::ceil(left * 1e3));
    ::poll(both.data(), both.size(), timeout);
  }

  /// Receives everything that has arrived.
  void receive() {
    while (channel_.get() >= 0) {
      Word word = receive_word(channel_.get());
      if (word.kind == Word::Kind::none) return;
      if (word.kind == Word::Kind::ended) channel_.reset();
      if (word.kind == Word::Kind::given_back) given_back_ = true;
      if (word.kind == Word::Kind::held) note_hold(std::move(word));
    }
  }

  void note_hold(Word word) {
    grant_ = word.grant;
    hold_ = std::move(word.hold);
    given_back_ = false;
    const bool is_guarded = guard_.start(command_, *hold_, options_.key);
    if (!is_guarded && options_.close)
      say("cannot start the process that guards the lock: if this process ({}) is killed, the lock ends", ::getpid());
    static_cast<void>(::send(channel_.get(), "", 1, MSG_NOSIGNAL));  // see await_answer()
    if (grant_.in_cluster) note_session();
    if (options_.exptime > 0) end_ = grant_.time + options_.exptime;
    if (!grant_.in_cluster && options_.exptime > 0) look_at_ = end_;
  }

  /// The command has started: it did not give the lock back before.
  bool runs() const { return hold_ && !given_back_ && channel_.get() < 0; }

  void note_session() {
    look_at_ = holdfast_now();
    holdfast_cluster state{};
    if (attach()) holdfast_cluster_state(dict_, &state);
    epoch_ = state.epoch;
  }

  // The kernel sends terminal signals to the whole process group, so to the command as well. Only the session leader
  // gets a hang-up.
  bool has_come_to_command(const signalfd_siginfo& info) const {
    if (info.ssi_signo == SIGHUP && ::getsid(0) == ::getpid()) return false;
    return info.ssi_code == SI_KERNEL && ::getpgid(command_) == ::getpgrp();
  }

  void pass_signals() {
    while (const std::optional<signalfd_siginfo> info = signals_.next()) {
      const int signal = static_cast<int>(info->ssi_signo);
      if (signal == SIGCHLD) continue;
      sigaddset(&received_, signal);
      if (!has_come_to_command(*info)) ::kill(command_, signal);
    }
  }

  void reap() {
    int status = 0;
    while (::waitpid(command_, &status, WNOHANG | WUNTRACED) == command_) {
      if (!WIFSTOPPED(status)) {
        ended_ = true;
        status_ = status;
        return;
      }
      // A shell that waits for this process as its job expects it to stop and continue with the command.
      if (is_stop_of_job(WSTOPSIG(status)) && PassedSignals::stop_here()) ::kill(command_, SIGCONT);
    }
  }

  // STOP is meant for the command alone, and only the command is continued, unless the terminal's foreground job stops
  // itself this way.
  static bool is_stop_of_job(int signal) {
    if (signal != SIGSTOP) return true;
    const Descriptor terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
    return terminal.get() >= 0 && ::tcgetpgrp(terminal.get()) == ::getpgrp();
  }

  void look() {
    if (ended_ || holdfast_now() < look_at_) return;
    look_at_ = holdfast_now() + kLookSeconds;
    if (!attach()) return;
    if (options_.agent) agent_.ensure(dict_);
    if (!runs() || lost_ || is_held()) return;
    lost_ = true;
    ::kill(command_, SIGTERM);  // before printing, which may take time
    say("{}; the command gets TERM", reason_of_loss());
  }

  // Attach only when needed: it takes a slot in the world.
  bool attach() {
    const std::string& name = options_.dictionary;
    return dict_ != nullptr || holdfast_attach(name.data(), name.size(), &dict_) == HOLDFAST_OK;
  }

  bool is_held() const {
    std::vector<holdfast_holder> holders(options_.shared ? HOLDFAST_HOLDERS_MAX : 1);
    std::uint32_t count = 0;
    std::uint32_t waiters = 0;
    const int code = holdfast_holders(dict_, options_.key.data(), options_.key.size(), holders.data(),
                                      static_cast<std::uint32_t>(holders.size()), &count, &waiters);
    if (code == HOLDFAST_TIMEOUT || code == HOLDFAST_BUSY) return true;  // unknown; check again
    if (code != HOLDFAST_OK) return false;
    return std::any_of(holders.begin(), holders.begin() + std::min<std::ptrdiff_t>(count, std::ssize(holders)),
                       [&](const holdfast_holder& holder) {
                         return holder.owner == grant_.lease.owner && holder.sequence == grant_.lease.sequence;
                       });
  }

  std::string reason_of_loss() const {
    const std::string key = quote(options_.key);
    holdfast_cluster state{};
    const bool in_cluster = grant_.in_cluster;
    // If the dictionary is gone, its cluster is unknown, too.
    if (is_removed()) return removed();
    if (in_cluster && holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE && state.seconds == 0)
      return fmt::format("{} was lost: {}", key, holdfast_error());
    if (in_cluster && epoch_ != 0 && state.epoch != epoch_)
      return fmt::format("{} was lost: this machine's session at the store of cluster {} has ended", key,
                         static_cast<const char*>(state.name));
    if (holdfast_now() >= end_) return fmt::format("{} has ended, after its exptime of {:g} s", key, options_.exptime);
    return key + " was taken away: another process ended its grant";
  }

  // Gives the lock back as its holder would, so that a waiter is notified and nobody finds a dead holder. Then ends the
  // hold also for processes that the command left behind.
  void end_hold() {
    receive();
    if (!hold_) return;
    if (!lost_ && !given_back_) give_back();
    hold_->end();
    guard_.end();
  }

  // Others may have released the lock in the meantime, or removed its dictionary.
  void give_back() {
    const std::string& name = options_.dictionary;
    int code = dict_ != nullptr ? HOLDFAST_OK : holdfast_attach(name.data(), name.size(), &dict_);
    if (code == HOLDFAST_OK) code = holdfast_lock_break(dict_, options_.key.data(), options_.key.size(), &grant_.lease);
    const bool is_gone = code == HOLDFAST_NOT_OWNER || code == HOLDFAST_REMOVED || code == HOLDFAST_NOT_FOUND;
    lost_ = is_gone && !guard_.has_acted();
    if (lost_) say("{}, while the command ran", code == HOLDFAST_NOT_OWNER ? reason_of_loss() : removed());
  }

  bool is_removed() const {
    double seconds = 0;
    const std::string& key = options_.key;
    return holdfast_lock_remaining(dict_, key.data(), key.size(), &grant_.lease, &seconds) == HOLDFAST_REMOVED;
  }

  std::string removed() const {
    return fmt::format("{} was taken away: its dictionary {} was removed", quote(options_.key),
                       quote_name(options_.dictionary));
  }

  int end_as_command() const {
    if (lost_) return lock_status::kLost;
    if (WIFEXITED(status_)) return WEXITSTATUS(status_);
    const int signal = WTERMSIG(status_);
    // A signal meant for this process has ended the command instead.
    if (sigismember(&received_, signal) == 1) {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      die_by(signal);
    }
    return 128 + signal;
  }

  const LockOptions& options_;
  PassedSignals signals_;
  LockAgent agent_;
  LockGuard guard_;
  pid_t command_ = 0;
  Descriptor channel_;  // closed when the command has started, or never will
  Grant grant_{};
  std::optional<Hold> hold_;
  bool given_back_ = false;  // by the child, before the command began
  holdfast_dict* dict_ = nullptr;
  std::uint32_t epoch_ = 0;  // the epoch of the cluster session that granted the lock; 0: unknown
  double end_ = kNever;      // when its exptime is over
  double look_at_ = kNever;
  bool lost_ = false;
  bool ended_ = false;
  int status_ = 0;
  sigset_t received_{};
};

// Makes the path absolute, so that an agent and the command use the same world in any working directory.
void export_directory(const std::string& option) {
  const char* const given = option.empty() ? std::getenv("HOLDFAST_DIR") : option.c_str();
  if (given == nullptr || *given == '\0') return;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  // If that fails, the library reports a relative path. An absolute path stays as it is.
  ::setenv("HOLDFAST_DIR", error ? given : (here / given).c_str(), 1);
}

int run_lock(Arguments& arguments) {
  const LockOptions options = read_lock_options(arguments);
  export_directory(options.directory);
  if (const std::string wrong = options.user ? become_user(*options.user) : ""; !wrong.empty()) {
    say("{}", wrong);
    return lock_status::kSystem;
  }
  // Others may truncate files during a wait. The command does not inherit this.
  static_cast<void>(holdfast_guard_sigbus());
  try {
    return options.no_fork ? take_and_become(options, -1) : Wrapper(options).run();
  } catch (const std::exception& error) {
    say("{}", error.what());
    return lock_status::kSystem;
  }
}

}  // namespace

const Subcommand kLock{"lock",
                       "Run a command while holding a lock, like flock",
                       "[DICTIONARY] KEY -- COMMAND [ARGUMENTS...]\n"
                       "       holdfast lock [OPTIONS] [DICTIONARY] KEY -c COMMAND\n"
                       "       holdfast lock [OPTIONS] -- [DICTIONARY] KEY -- COMMAND [ARGUMENTS...]",
                       "Run a command while holding a lock.",
                       R"(The lock is held as long as the command runs, even if `holdfast lock` is killed. The command
gets the fencing number of the lock in $HOLDFAST_TOKEN. DICTIONARY is created if it does not exist.
Put "--" before a KEY that begins with "-": holdfast lock -n -- -key COMMAND

Exit status: the command's, or 128 + n if signal n killed it; otherwise
   1  the lock is held, or the wait timed out (see -E)
  64  invalid command line               73  the dictionary cannot be opened
  69  the command cannot be run          75  no agent, or it cannot reach the store
  71  a system call failed               76  the lock was lost while the command ran)",
                       run_lock,
                       lock_status::kUsage};

}  // namespace holdfast::cli
