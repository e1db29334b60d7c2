#include "lock/wrapper.h"

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
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "holdfast.h"
#include "lock/child.h"
#include "lock/job.h"
#include "lock/lock_agent.h"
#include "lock/lock_end.h"
#include "lock/lock_guard.h"
#include "lock/lock_hold.h"
#include "lock/lock_taker.h"
#include "lock/passed_signals.h"
#include "lock/replacement.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// How often to check that the lock is still held, if it can be lost.
constexpr double kCheckSeconds = 0.2;
/// How often to check whether the processes that the command left behind have ended. A signal usually reports their
/// end, but not always.
constexpr double kCheckJobSeconds = 0.5;
/// How long to try to print the last messages.
constexpr int kLastReportsMs = 1000;
/// How often to look for holders that --replace has to end.
constexpr double kReplaceSeconds = 0.05;

/// The parent of the command. It takes the lock for its child, which then becomes the command. It passes signals on,
/// notices if the lock is lost, and ends the hold when the job has ended.
// Only this process enters the world and takes the lock. Other processes see the command as the holder
// (holdfast_show_as). The hold outlives this process, because the command and the guard also have its descriptors.
class Wrapper {
 public:
  explicit Wrapper(const LockOptions& options)
      : options_(options),
        agent_(options, signals_),
        replacement_(options, reports_),
        taker_(
            options, [this](holdfast_parker* parker, double seconds) { return pause(parker, seconds); },
            [this](double deadline, const std::function<void()>& waiting) { return take_file(deadline, waiting); }) {}

  int run() {
    adopt_orphans();
    start();
    if (const auto refused = take()) return refuse(*refused);
    hand_over();
    while (!ended_ || (!options_.is_flock() && has_members())) attend(-1, kNever);
    end_hold();
    agent_.stop();
    print_reports(kLastReportsMs);
    return end_as_command();
  }

 private:
  // Forks the child before this process enters the world, while its address space is still small.
  void start() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    channel_ = Descriptor(ends[0]);
    Descriptor other(ends[1]);
    if (has_children())
      children_before_ = children_of_this();  // of a shell that had children and then exec'ed holdfast
    had_children_ = !children_before_.empty();
    const pid_t self = ::getpid();
    command_ = ::fork();
    if (command_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (command_ == 0) {
      // If this process ends while the child waits for the lock, the child must end, too. A child that has become the
      // command continues.
      follow_parent(self, SIGKILL);
      signals_.restore();
      channel_.reset();
      std::exit(become_command_when_held(options_, other.get()));
    }
    guard_.prepare(command_, group_);
    holdfast_show_as(command_);
  }

  /// Returns nothing if the lock is held, otherwise the exit status.
  std::optional<int> take() {
    if (!options_.agent) return taker_.take();
    int status = taker_.enter();
    if (status == 0) status = agent_.ensure_and_wait(taker_.dictionary());
    if (status != 0) return status;
    // Start to check the agent now, because it may end while this process still waits for the lock.
    look_at_ = holdfast_now() + kCheckSeconds;
    return taker_.take();
  }

  /// Ends the run without the lock.
  int refuse(int status) {
    const bool is_stopped = ended_ || is_refused_;
    if (!ended_) ::kill(command_, SIGKILL);
    while (!ended_ && ::waitpid(command_, &status_, 0) < 0 && errno == EINTR) continue;
    agent_.stop();
    if (agent_.signal() != 0) die_by(agent_.signal());
    print_reports(kLastReportsMs);
    return is_stopped ? end_as_command() : status;
  }

  /// Starts the guard of the hold, and lets the child become the command.
  void hand_over() {
    grant_ = taker_.grant();
    is_held_ = taker_.is_visible();
    if (is_held_) {
      lock_end_.emplace(options_, grant_, grant_.in_cluster ? dictionary() : nullptr);
      const bool is_guarded = guard_.start(taker_.hold(), options_.key, *lock_end_);
      if (!is_guarded && options_.close)
        say_in_time("cannot start the process that guards the lock: if this process ({}) is killed, the lock ends",
                    ::getpid());
      look_at_ = std::min(look_at_, lock_end_->next(grant_.time));
      lost_ = taker_.confirm() != 0;
    }
    const Hold nothing;
    if (lost_)
      ::kill(command_, SIGKILL);
    else if (!send_order(channel_.get(), grant_.lease.sequence, is_held_ ? taker_.hold() : nothing))
      say_in_time("cannot start the command: sendmsg: {}", std::strerror(errno));  // too many descriptors in transit
    channel_.reset();
  }

  /// Waits until something is due or the descriptor is readable, but at most `seconds`. Then does what is due.
  void attend(int descriptor, double seconds) {
    wait(descriptor, seconds);
    pass_signals();
    reap();
    look();
    print_reports(0);
  }

  void wait(int descriptor, double seconds) {
    std::array<pollfd, 2> both{{{signals_.descriptor(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
    const double now = holdfast_now();
    const double next = std::min({now + seconds, look_at_, kill_at_, ended_ ? now + kCheckJobSeconds : kNever,
                                  replaces() ? now + kReplaceSeconds : kNever});
    const double left = std::max(0.0, next - now);
    constexpr double kLongestSeconds = 1e6;  // poll() takes an int
    const int timeout = static_cast<int>(std::min(left, kLongestSeconds) * 1e3) + (left > 0 ? 1 : 0);
    ::poll(both.data(), both.size(), timeout);
  }

  /// Implements LockTaker::Pause, for a taker that waits for the lock.
  bool pause(holdfast_parker* parker, double seconds) {
    waits_ = true;
    const int descriptor = parker != nullptr ? holdfast_parker_fd(parker) : -1;
    constexpr double kBlindSeconds = 0.05;  // used if the process could not get a descriptor
    if (parker != nullptr && descriptor < 0) seconds = std::min(seconds, kBlindSeconds);
    const double end = holdfast_now() + seconds;
    std::uint32_t woken = 0;
    do {
      attend(descriptor, std::max(end - holdfast_now(), 0.0));
      if (ended_ || is_refused_) return false;
    } while ((parker == nullptr || holdfast_parker_sleep(parker, 0, &woken, 1) == 0) && holdfast_now() < end);
    return true;
  }

  /// Implements LockTaker::TakeFile. Lets the child wait in the kernel, so that this process can act in the meantime.
  /// The two processes share the flock(2) lock, unless the child had to open the file again.
  int take_file(double deadline, const std::function<void()>& waiting) {
    if (!send_order(channel_.get(), kTakeFile, Hold())) return errno;
    constexpr double kNoticeSeconds = 1;
    constexpr double kAnswerSeconds = 2;  // time limit for the answer of a child that only tries
    if (options_.timeout == 0) deadline = holdfast_now() + kAnswerSeconds;
    for (;;) {
      int error = 0;
      if (::recv(channel_.get(), &error, sizeof error, MSG_DONTWAIT) == sizeof error) return error;
      if (ended_) return ECANCELED;
      const double left = deadline - holdfast_now();
      if (left <= 0) return EWOULDBLOCK;
      waiting();
      attend(channel_.get(), std::min(kNoticeSeconds, left));
    }
  }

  holdfast_dict* dictionary() const noexcept { return taker_.dictionary(); }

  /// Returns whether this process has children.
  static bool has_children() noexcept {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
  }

  /// Returns the children of this process that do not belong to the job.
  std::vector<pid_t> strangers() const {
    std::vector<pid_t> all = children_before_;
    all.insert(all.end(), {guard_.pid(), agent_.pid()});
    return all;
  }

  /// Returns the members of the job. Processes that left the group are not members, but the command always is.
  std::vector<pid_t> members() const {
    std::vector<pid_t> all;
    if (!ended_ || !had_children_)
      all = descending_members(had_children_ ? command_ : ::getpid(), command_, group_, strangers());
    const auto add = [&](pid_t pid) {
      if (std::find(all.begin(), all.end(), pid) == all.end()) all.push_back(pid);
    };
    if (had_children_) {  // the orphans of earlier children are also children of this process
      FoundJob job = guard_.job();
      if (is_held_) job.file = name_of_file(taker_.hold().descriptors().front());
      std::ranges::for_each(marked_members(job), add);
      if (!ended_) add(command_);
      return all;
    }
    // Do this after the search. If a member has started another process and ended, the search may have found neither of
    // them, but the new process is now a child of this process. Also, /proc may hide other users' processes from the
    // search.
    for (const pid_t child : own_children())
      if (const pid_t group = ::getpgid(child); group == group_ || group == command_) add(child);
    if (!ended_) add(command_);
    return all;
  }

  /// Returns the children that the command or its descendants left to this process.
  std::vector<pid_t> own_children() const {
    std::vector<pid_t> children = children_of_this();
    for (const pid_t stranger : strangers()) std::erase(children, stranger);
    return children;
  }

  /// Returns whether the command left processes of its job behind.
  // Without children, this process has no other descendants either, so the slower search is not needed.
  bool has_members() const { return !own_children().empty() && !members().empty(); }

  void signal_job(int signal) const {
    for (const pid_t member : members()) ::kill(member, signal);
  }

  // Returns whether the job has received the signal, too. The kernel sends a terminal's signals to the whole process
  // group, except for a hang-up, which only the session leader gets.
  bool has_come_to_job(const signalfd_siginfo& info) const {
    if (info.ssi_signo == SIGHUP && ::getsid(0) == ::getpid()) return false;
    return info.ssi_code == SI_KERNEL && group_ == ::getpgrp() && (ended_ || ::getpgid(command_) == group_);
  }

  void pass_signals() {
    while (const std::optional<signalfd_siginfo> info = signals_.next()) {
      const int signal = static_cast<int>(info->ssi_signo);
      if (signal == SIGCHLD) continue;
      sigaddset(&received_, signal);
      pass(signal, *info);
      if (ends_a_job(signal) && options_.kill_after && kill_at_ == kNever)
        kill_at_ = holdfast_now() + *options_.kill_after;
    }
  }

  static bool ends_a_job(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  }

  // Passes the signal on. USR1, USR2 and WINCH go only to the command, because USR1 and USR2 would kill the command's
  // helpers.
  void pass(int signal, const signalfd_siginfo& info) {
    const bool is_for_all = ends_a_job(signal) || signal == SIGTSTP || signal == SIGCONT;
    if (!has_come_to_job(info)) {
      if (is_for_all)
        signal_job(signal);
      else if (!ended_)
        ::kill(command_, signal);
    }
    // A command that has ended cannot report a stop.
    if (signal == SIGTSTP && ended_ && PassedSignals::stop_here()) signal_job(SIGCONT);
  }

  void reap() {
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
      const bool is_stopped = WIFSTOPPED(status);
      if (child != command_) {
        if (is_stopped) continue;
        std::erase(children_before_, child);  // another process may get the child's pid
        if (!guard_.note_end(child)) agent_.note_end(child, status);
        continue;
      }
      if (!is_stopped) {
        ended_ = true;
        status_ = status;
        // If this process is a shell's job, the shell expects it to stop and continue together with the command.
      } else if (is_stop_of_job(WSTOPSIG(status)) && PassedSignals::stop_here()) {
        signal_job(SIGCONT);
      }
    }
  }

  // STOP is usually meant for the command alone, and the later CONT is too. But the foreground job
  // of a terminal may use STOP to stop itself.
  static bool is_stop_of_job(int signal) {
    if (signal != SIGSTOP) return true;
    const Descriptor terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
    return terminal.get() >= 0 && ::tcgetpgrp(terminal.get()) == ::getpgrp();
  }

  void look() {
    const double now = holdfast_now();
    if (now >= kill_at_) kill_job(now);
    if (replaces()) replace();
    if (now < look_at_) return;
    look_at_ = now + kCheckSeconds;
    if (options_.agent) agent_.ensure(dictionary());
    if (!is_held_ || is_ending_ || lost_) return;
    auto ending = lock_end_->due(now);
    if (!ending) return;
    lost_ = ending->lost;
    if (lost_) ending->reason = reason_of_loss();
    end_job(*ending);
  }

  /// Returns whether other jobs must be ended so that the command gets the lock.
  bool replaces() const { return options_.replace && waits_ && !is_held_ && !ended_ && !is_refused_; }

  void replace() {
    const std::string wrong = replacement_.end_holders(dictionary(), command_);
    if (wrong.empty()) return;
    ::kill(command_, SIGKILL);  // the child still waits for the lock
    reports_.push_back(wrong);
    is_refused_ = true;
  }

  /// Ends the job: sends TERM, and KILL after the grace period.
  void end_job(const LockEnd::Ending& ending) {
    is_ending_ = true;
    signal_job(SIGTERM);
    kill_at_ = std::min(kill_at_, ending.kill_at);
    reports_.push_back(fmt::format("{}; sending TERM to the job, and KILL after {:g} s", ending.reason, ending.grace));
  }

  // Sends KILL repeatedly until no member is left, because members may start other processes.
  void kill_job(double now) {
    signal_job(SIGKILL);
    if (!is_killed_) reports_.push_back(quote_key(options_.key) + ": the job has not ended; sending KILL");
    is_killed_ = true;
    kill_at_ = now + kCheckSeconds;
  }

  /// Prints messages as long as this does not block, because the job must end in time even if nobody reads them.
  void print_reports(int wait_ms) {
    for (; !reports_.empty() && accepts_messages(STDERR_FILENO, wait_ms); reports_.erase(reports_.begin()))
      say("{}", reports_.front());
  }

  std::string reason_of_loss() const {
    const std::string key = quote_key(options_.key);
    holdfast_cluster state{};
    const bool in_cluster = grant_.in_cluster;
    // If the dictionary is gone, its cluster is unknown.
    if (is_removed()) return removed();
    if (in_cluster && holdfast_cluster_state(dictionary(), &state) == HOLDFAST_UNAVAILABLE && state.seconds == 0)
      return fmt::format("{} was lost: {}", key, holdfast_error());
    if (in_cluster && lock_end_->epoch() != 0 && state.epoch != lock_end_->epoch())
      return fmt::format("{} was lost: this machine's session with the store of cluster {} has ended", key,
                         static_cast<const char*>(state.name));
    return key + " was taken away: another process released the lock";
  }

  // Gives the lock back, so that a waiter is notified and nobody finds a dead holder. Then ends the hold for all
  // processes, including those that the command left behind.
  void end_hold() {
    if (!is_held_) return;
    if (options_.is_flock()) ::close(options_.file);  // the next holder of the visible lock also needs the flock(2)
    if (!lost_) give_back();
    taker_.hold().end();
    guard_.end();
  }

  // Gives the lock back. Another process may have released it in the meantime, or removed its dictionary.
  void give_back() {
    const int code = taker_.release();
    const bool is_gone = code == HOLDFAST_NOT_OWNER || code == HOLDFAST_REMOVED;
    lost_ = is_gone && !guard_.has_acted() && !options_.is_flock();  // a flock(2) is still held
    if (lost_)
      reports_.push_back((code == HOLDFAST_NOT_OWNER ? reason_of_loss() : removed()) + " while the command ran");
  }

  bool is_removed() const {
    double seconds = 0;
    const std::string& key = options_.key;
    return holdfast_lock_remaining(dictionary(), key.data(), key.size(), &grant_.lease, &seconds) == HOLDFAST_REMOVED;
  }

  std::string removed() const {
    return fmt::format("{} was taken away: its dictionary {} was removed", quote_key(options_.key),
                       quote_name(options_.dictionary));
  }

  int end_as_command() const {
    if (is_refused_) return options_.conflict;
    if (lost_ || is_ending_) return lock_status::kLost;
    if (WIFEXITED(status_)) return WEXITSTATUS(status_);
    const int signal = WTERMSIG(status_);
    // The command was ended by a signal that was also sent to this process.
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
  std::vector<std::string> reports_;  // messages that are not printed yet
  Replacement replacement_;
  LockTaker taker_;
  LockGuard guard_;
  pid_t command_ = 0;
  pid_t group_ = ::getpgrp();  // the process group of the job
  std::vector<pid_t> children_before_;
  bool had_children_ = false;
  Descriptor channel_;  // the socket to the child, until the child becomes the command
  Grant grant_{};
  bool is_held_ = false;             // the visible lock is held
  std::optional<LockEnd> lock_end_;  // set while there is a hold
  bool waits_ = false;               // the lock was held by another process
  double look_at_ = kNever;
  double kill_at_ = kNever;
  bool lost_ = false;
  bool is_ending_ = false;   // set by end_job()
  bool is_killed_ = false;   // set by kill_job()
  bool is_refused_ = false;  // set by replace()
  bool ended_ = false;
  int status_ = 0;
  sigset_t received_{};
};

/// Takes the lock, and becomes the command in the same process.
int run_in_place(const LockOptions& options) {
  LockTaker taker(options);
  if (const auto refused = taker.take()) return *refused;
  const int error = execute_command(options, taker.grant().lease.sequence, taker.hold());
  taker.give_back();
  taker.hold().close();
  return refuse_command(options, error);
}

}  // namespace

int run_under_lock(const LockOptions& options) {
  return options.no_fork ? run_in_place(options) : Wrapper(options).run();
}

int run_without_lock(const LockOptions& options) {
  return refuse_command(options, execute_command(options, 0, Hold()));
}

}  // namespace holdfast::cli
