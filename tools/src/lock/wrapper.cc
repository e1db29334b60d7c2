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
#include <cstdlib>
#include <cstring>
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
/// How often to check whether processes that the command left behind have ended, if no signal tells.
constexpr double kCheckJobSeconds = 0.5;
/// How long to try to print the last messages.
constexpr int kLastReportsMs = 1000;
/// How often to look for holders that --replace has to end.
constexpr double kReplaceSeconds = 0.05;

/// The parent: passes signals on, notices if the lock is lost, and ends the hold with the command.
class Wrapper {
 public:
  explicit Wrapper(const LockOptions& options)
      : options_(options), agent_(options, signals_), replacement_(options, reports_) {}

  int run() {
    if (options_.agent) {
      if (const int status = prepare_agent()) {
        agent_.stop();
        if (agent_.signal() != 0) die_by(agent_.signal());
        return status;
      }
    }
    adopt_orphans();
    start();
    while (!ended_ || (!options_.is_flock() && has_members())) {
      wait();
      receive();
      pass_signals();
      reap();
      look();
      print_reports(0);
    }
    end_hold();
    agent_.stop();
    print_reports(kLastReportsMs);
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
    if (options_.agent) look_at_ = holdfast_now() + kCheckSeconds;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    channel_ = Descriptor(ends[0]);
    Descriptor other(ends[1]);
    const pid_t self = ::getpid();
    command_ = ::fork();
    if (command_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (command_ > 0) return prepare();
    // A waiting child ends with this process; a running command does not.
    follow_parent(self, SIGKILL);
    signals_.restore();
    channel_.reset();
    std::exit(take_and_become(options_, other.get()));
  }

  // Does what the child, which takes the lock now and starts no process, need not wait for.
  void prepare() {
    children_before_ = children_of_this();  // a shell may have given this process children before it became holdfast
    std::erase(children_before_, command_);
    had_children_ = !children_before_.empty();
    guard_.prepare(command_, group_);
    holdfast_name_program("holdfast", std::strlen("holdfast"));  // otherwise attach() reads the name
  }

  void wait() {
    std::array<pollfd, 2> both{{{signals_.descriptor(), POLLIN, 0}, {channel_.get(), POLLIN, 0}}};
    const double now = holdfast_now();
    const double next = std::min(
        {look_at_, kill_at_, ended_ ? now + kCheckJobSeconds : kNever, replaces() ? now + kReplaceSeconds : kNever});
    const double left = std::max(0.0, next - now);
    constexpr double kLongestSeconds = 1e6;  // poll() takes an int
    const int timeout = static_cast<int>(std::min(left, kLongestSeconds) * 1e3) + 1;
    ::poll(both.data(), both.size(), timeout);
  }

  /// Receives everything that has arrived.
  void receive() {
    while (channel_.get() >= 0) {
      Word word = receive_word(channel_.get());
      if (word.kind == Word::Kind::none) return;
      if (word.kind == Word::Kind::ended) channel_.reset();
      if (word.kind == Word::Kind::given_back) given_back_ = true;
      if (word.kind == Word::Kind::waits) waits_ = true;
      if (word.kind == Word::Kind::held) note_hold(std::move(word));
    }
  }

  void note_hold(Word word) {
    grant_ = word.grant;
    hold_ = std::move(word.hold);
    given_back_ = false;
    lock_end_.emplace(options_, grant_, grant_.in_cluster && attach() ? dict_ : nullptr);
    const bool is_guarded = guard_.start(*hold_, options_.key, *lock_end_);
    if (!is_guarded && options_.close)
      say("cannot start the process that guards the lock: if this process ({}) is killed, the lock ends", ::getpid());
    static_cast<void>(::send(channel_.get(), "", 1, MSG_NOSIGNAL));  // see await_answer()
    look_at_ = std::min(look_at_, lock_end_->next(grant_.time));
  }

  /// The command has started: it did not give the lock back before.
  bool runs() const { return hold_ && !given_back_ && channel_.get() < 0; }

  /// Returns the children of this process that do not belong to the job.
  std::vector<pid_t> strangers() const {
    std::vector<pid_t> all = children_before_;
    all.insert(all.end(), {guard_.pid(), agent_.pid()});
    return all;
  }

  /// Returns the processes of the job, without those that left the group; the command always belongs to it.
  std::vector<pid_t> members() const {
    std::vector<pid_t> all;
    if (!ended_ || !had_children_)
      all = descending_members(had_children_ ? command_ : ::getpid(), command_, group_, strangers());
    const auto add = [&](pid_t pid) {
      if (std::find(all.begin(), all.end(), pid) == all.end()) all.push_back(pid);
    };
    if (had_children_) {  // their orphans are children of this process, too
      FoundJob job = guard_.job();
      if (hold_) job.file = name_of_file(hold_->descriptors().front());
      std::ranges::for_each(marked_members(job), add);
      if (!ended_) add(command_);
      return all;
    }
    // After the search: if a member has started another one and ended, the search may have found neither, but the new
    // one is now a child of this process. Nor may /proc show the processes of other users.
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
  // All descendants of this process descend from its children.
  bool has_members() const { return !own_children().empty() && !members().empty(); }

  void signal_job(int signal) const {
    for (const pid_t member : members()) ::kill(member, signal);
  }

  // The kernel sends terminal signals to the whole process group, so to the job as well. Only the session leader gets a
  // hang-up.
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

  // USR1, USR2 and WINCH have a meaning only for the command; USR1 and USR2 would kill its helpers.
  void pass(int signal, const signalfd_siginfo& info) {
    const bool is_for_all = ends_a_job(signal) || signal == SIGTSTP || signal == SIGCONT;
    if (!has_come_to_job(info)) {
      if (is_for_all)
        signal_job(signal);
      else if (!ended_)
        ::kill(command_, signal);
    }
    // A command that has ended reports no stop.
    if (signal == SIGTSTP && ended_ && PassedSignals::stop_here()) signal_job(SIGCONT);
  }

  void reap() {
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
      const bool is_stopped = WIFSTOPPED(status);
      if (child != command_) {
        if (is_stopped) continue;
        std::erase(children_before_, child);  // another process may get its number
        if (!guard_.note_end(child)) agent_.note_end(child, status);
        continue;
      }
      if (!is_stopped) {
        ended_ = true;
        status_ = status;
        // A shell that waits for this process as its job expects it to stop and continue with the command.
      } else if (is_stop_of_job(WSTOPSIG(status)) && PassedSignals::stop_here()) {
        signal_job(SIGCONT);
      }
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
    const double now = holdfast_now();
    if (now >= kill_at_) kill_job(now);
    if (replaces()) replace();
    if (now < look_at_) return;
    look_at_ = now + kCheckSeconds;
    if (options_.agent && attach()) agent_.ensure(dict_);
    if (!runs() || is_ending_) return;
    lost_ = grant_.in_cluster && attach() && !is_held();
    if (lost_) return end_job({reason_of_loss(), options_.grace(), now + options_.grace()});
    if (const auto ending = lock_end_->due(now)) end_job(*ending);
  }

  /// Returns whether others' jobs must end so that the command gets the lock.
  bool replaces() const { return options_.replace && waits_ && !hold_ && !ended_ && !is_refused_; }

  void replace() {
    if (!attach()) return;  // nobody holds anything
    const std::string wrong = replacement_.end_holders(dict_, command_);
    if (wrong.empty()) return;
    ::kill(command_, SIGKILL);  // it still waits for the lock
    reports_.push_back(wrong);
    is_refused_ = true;
  }

  /// Ends the job: TERM, and KILL after the time of grace.
  void end_job(const LockEnd::Ending& ending) {
    is_ending_ = true;
    signal_job(SIGTERM);
    kill_at_ = std::min(kill_at_, ending.kill_at);
    reports_.push_back(fmt::format("{}; sending TERM to the job, and KILL after {:g} s", ending.reason, ending.grace));
  }

  // Repeats it until nothing is left, because members may start others.
  void kill_job(double now) {
    signal_job(SIGKILL);
    if (!is_killed_) reports_.push_back(quote_key(options_.key) + ": the job has not ended; sending KILL");
    is_killed_ = true;
    kill_at_ = now + kCheckSeconds;
  }

  /// Prints the messages that do not block, because the job must end in time although nobody reads them.
  void print_reports(int wait_ms) {
    for (; !reports_.empty() && accepts_messages(STDERR_FILENO, wait_ms); reports_.erase(reports_.begin()))
      say("{}", reports_.front());
  }

  // Attach only when needed: it takes a slot in the world.
  bool attach() {
    const std::string& name = options_.dictionary;
    return dict_ != nullptr || holdfast_attach(name.data(), name.size(), &dict_) == HOLDFAST_OK;
  }

  bool is_held() const {
    std::vector<holdfast_holder> holders(options_.has_company() ? HOLDFAST_HOLDERS_MAX : 1);
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
    const std::string key = quote_key(options_.key);
    holdfast_cluster state{};
    const bool in_cluster = grant_.in_cluster;
    // If the dictionary is gone, its cluster is unknown, too.
    if (is_removed()) return removed();
    if (in_cluster && holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE && state.seconds == 0)
      return fmt::format("{} was lost: {}", key, holdfast_error());
    if (in_cluster && lock_end_->epoch() != 0 && state.epoch != lock_end_->epoch())
      return fmt::format("{} was lost: this machine's session with the store of cluster {} has ended", key,
                         static_cast<const char*>(state.name));
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
    lost_ = is_gone && !guard_.has_acted() && !options_.is_flock();  // a file's flock(2) is held all the same
    if (lost_)
      reports_.push_back((code == HOLDFAST_NOT_OWNER ? reason_of_loss() : removed()) + " while the command ran");
  }

  bool is_removed() const {
    double seconds = 0;
    const std::string& key = options_.key;
    return holdfast_lock_remaining(dict_, key.data(), key.size(), &grant_.lease, &seconds) == HOLDFAST_REMOVED;
  }

  std::string removed() const {
    return fmt::format("{} was taken away: its dictionary {} was removed", quote_key(options_.key),
                       quote_name(options_.dictionary));
  }

  int end_as_command() const {
    if (is_refused_ && !hold_) return options_.conflict;
    if (lost_ || is_ending_) return lock_status::kLost;
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
  Replacement replacement_;
  LockGuard guard_;
  pid_t command_ = 0;
  pid_t group_ = ::getpgrp();  // of the job
  std::vector<pid_t> children_before_;
  bool had_children_ = false;
  Descriptor channel_;  // closed when the command has started, or never will
  Grant grant_{};
  std::optional<Hold> hold_;
  std::optional<LockEnd> lock_end_;  // with a hold
  bool waits_ = false;               // the child: the lock was held
  bool given_back_ = false;          // by the child, before the command began
  holdfast_dict* dict_ = nullptr;
  double look_at_ = kNever;
  double kill_at_ = kNever;
  bool lost_ = false;
  bool is_ending_ = false;  // by end_job()
  bool is_killed_ = false;
  std::vector<std::string> reports_;  // not printed yet
  bool is_refused_ = false;           // by replace()
  bool ended_ = false;
  int status_ = 0;
  sigset_t received_{};
};

}  // namespace

int run_under_lock(const LockOptions& options) {
  return options.no_fork ? take_and_become(options, -1) : Wrapper(options).run();
}

int run_without_lock(const LockOptions& options) { return LockTaker(options).become_command(); }

}  // namespace holdfast::cli
