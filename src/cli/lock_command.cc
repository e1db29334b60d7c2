#include "cli/lock_command.h"

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
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "base/name.h"
#include "cli/lock_agent.h"
#include "cli/lock_guard.h"
#include "cli/lock_options.h"
#include "cli/lock_refusal.h"
#include "cli/lock_taker.h"
#include "cli/message.h"
#include "cli/passed_signals.h"
#include "cli/signals.h"
#include "cli/user.h"
#include "cli/worker.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// How often to look whether the lock is still held, where it can be lost.
constexpr double kLookSeconds = 0.2;

struct Grant {
  holdfast_lease lease{};
  double time = 0;  // holdfast_now()
  bool in_cluster = false;
};

struct Hold {
  Grant grant;
  Descriptor descriptor;
};

// --- from the child to its parent: the lease, and the descriptor that holds it ---

struct Packet {
  Grant grant;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{&grant, sizeof grant};
  msghdr message{};

  Packet() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

void send_hold(int channel, const Grant& grant, int descriptor) {
  Packet packet;
  packet.grant = grant;
  cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  // A parent that is gone has no use of it.
  static_cast<void>(::sendmsg(channel, &packet.message, MSG_NOSIGNAL));
}

/// Nothing if it has not come, or never will.
std::optional<Hold> receive_hold(int channel) {
  Packet packet;
  if (::recvmsg(channel, &packet.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof packet.grant) return std::nullopt;
  const cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return std::nullopt;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return Hold{packet.grant, Descriptor(descriptor)};
}

/// In the child, which becomes the command only once the guard is there that ends the hold whatever becomes of the
/// parent. False if the parent has died before.
bool await_guard(int channel) {
  char word = 0;
  ssize_t got = 0;
  do got = ::recv(channel, &word, 1, 0);
  while (got < 0 && errno == EINTR);
  return got == 1;
}

// --- the two processes ---

/// In the process that becomes the command. `channel` is -1 without a parent. Returns if there is nothing to become.
int take_and_become(const LockOptions& options, int channel) {
  LockTaker taker(options);
  if (const auto status = taker.take()) return *status;
  int status = 0;
  if (channel >= 0) {
    send_hold(channel, {taker.lease(), holdfast_now(), taker.in_cluster()}, taker.hold().get());
    if (!await_guard(channel)) return lock_status::kSystem;  // what it holds ends with it
    status = taker.confirm();
  }
  if (status == 0) status = taker.become_command();
  // It has given the lock back itself, which the parent must not take for a loss.
  if (channel >= 0) static_cast<void>(::send(channel, "", 1, MSG_NOSIGNAL));
  return status;
}

/// The parent: passes signals on, sees whether the lock is lost, and ends the hold with the command.
class Wrapper {
 public:
  explicit Wrapper(const LockOptions& options) : options_(options), agent_(options, signals_) {}

  int run() {
    if (options_.agent) {
      if (const int status = prepare_agent()) {
        agent_.stop();
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
    // From now on: the agent that this one found may end while the command still waits for the lock.
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
    // A wait ends with this process; the command does not.
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

  void receive() {
    if (channel_.get() < 0) return;
    std::array<pollfd, 1> one{{{channel_.get(), POLLIN, 0}}};
    if (::poll(one.data(), one.size(), 0) <= 0) return;
    hold_ = receive_hold(channel_.get());
    failure_ = std::move(channel_);
    if (!hold_) return;
    const bool is_guarded = guard_.start(command_, hold_->descriptor.get(), options_.key);
    if (!is_guarded && options_.close)
      say("cannot start the process that guards the lock: it ends with this process, {}, if that is killed",
          ::getpid());
    static_cast<void>(::send(failure_.get(), "", 1, MSG_NOSIGNAL));  // see await_guard()
    if (hold_->grant.in_cluster) note_session();
    if (options_.exptime > 0) end_ = hold_->grant.time + options_.exptime;
    if (!hold_->grant.in_cluster && options_.exptime > 0) look_at_ = end_;
  }

  void note_session() {
    look_at_ = holdfast_now();
    holdfast_cluster state{};
    if (attach()) holdfast_cluster_state(dict_, &state);
    epoch_ = state.epoch;
  }

  // The kernel sends what is typed at a terminal to the whole process group, so to the command as well. That a terminal
  // has hung up it tells the leader of the session alone.
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
      // As the shell that waits for this process expects of a job.
      if (is_stop_of_job(WSTOPSIG(status)) && PassedSignals::stop_here()) ::kill(command_, SIGCONT);
    }
  }

  // STOP is meant for the command alone, and continues it alone, unless the job in front of a terminal
  // stops itself so.
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
    if (!hold_ || lost_ || is_held()) return;
    lost_ = true;
    ::kill(command_, SIGTERM);  // before a word of it, which may take time
    say("{}; the command gets TERM", reason_of_loss());
  }

  // Not before it is needed: it takes a place in the world.
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
    if (code == HOLDFAST_TIMEOUT || code == HOLDFAST_BUSY) return true;  // it is not known; look again
    if (code != HOLDFAST_OK) return false;
    return std::any_of(holders.begin(), holders.begin() + std::min<std::ptrdiff_t>(count, std::ssize(holders)),
                       [&](const holdfast_holder& holder) {
                         return holder.owner == hold_->grant.lease.owner &&
                                holder.sequence == hold_->grant.lease.sequence;
                       });
  }

  std::string reason_of_loss() const {
    const std::string key = quote(options_.key);
    holdfast_cluster state{};
    const bool in_cluster = hold_->grant.in_cluster;
    if (in_cluster && holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE && state.seconds == 0)
      return fmt::format("{} is lost: {}", key, holdfast_error());
    if (in_cluster && epoch_ != 0 && state.epoch != epoch_)
      return fmt::format("{} is lost: this machine's session at the store of cluster {} has ended", key,
                         static_cast<const char*>(state.name));
    if (holdfast_now() >= end_) return fmt::format("{} has ended, after its exptime of {:g} s", key, options_.exptime);
    return key + " was taken away: its grant was ended by another process";
  }

  // The lock is given back as its holder would do it, so that a waiter is told and nobody finds the dead; then the hold
  // ends also in what the command has left behind.
  void end_hold() {
    if (!hold_) receive();
    if (!hold_) return;
    if (!lost_) give_back();
    holdfast_end_hold(hold_->descriptor.release());
    guard_.end();
  }

  // Others may have released the lock meanwhile, or removed its dictionary.
  void give_back() {
    const std::string& name = options_.dictionary;
    int code = dict_ != nullptr ? HOLDFAST_OK : holdfast_attach(name.data(), name.size(), &dict_);
    if (code == HOLDFAST_OK)
      code = holdfast_lock_break(dict_, options_.key.data(), options_.key.size(), &hold_->grant.lease);
    const bool is_gone = code == HOLDFAST_NOT_OWNER || code == HOLDFAST_REMOVED || code == HOLDFAST_NOT_FOUND;
    lost_ = is_gone && has_run() && !guard_.has_acted();
    if (lost_) say("{}, while the command ran", code == HOLDFAST_NOT_OWNER ? reason_of_loss() : removed());
  }

  bool has_run() const {
    char failure = 0;
    return ::recv(failure_.get(), &failure, 1, MSG_DONTWAIT) != 1;
  }

  std::string removed() const {
    return fmt::format("{} was taken away: its dictionary {} was removed", quote(options_.key),
                       quote_name(options_.dictionary));
  }

  int end_as_command() const {
    if (lost_) return lock_status::kLost;
    if (WIFEXITED(status_)) return WEXITSTATUS(status_);
    const int signal = WTERMSIG(status_);
    // What was meant for this process has ended the command in its place.
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
  Descriptor channel_;  // until the hold has come
  Descriptor failure_;  // the same from then on: what comes says that there is no command
  std::optional<Hold> hold_;
  holdfast_dict* dict_ = nullptr;
  std::uint32_t epoch_ = 0;  // of the cluster's session that the lock is of; 0: it is not known
  double end_ = kNever;      // of its exptime
  double look_at_ = kNever;
  bool lost_ = false;
  bool ended_ = false;
  int status_ = 0;
  sigset_t received_{};
};

}  // namespace

int run_lock_command(const std::vector<std::string>& arguments) {
  const auto parsed = parse_lock_options(arguments);
  if (const auto* const status = std::get_if<int>(&parsed)) return *status;
  const auto& options = std::get<LockOptions>(parsed);
  // For an agent and the command as well: what they do with holdfast is of the same world.
  if (!options.directory.empty()) ::setenv("HOLDFAST_DIR", options.directory.c_str(), 1);
  if (const std::string wrong = options.user ? become_user(*options.user) : ""; !wrong.empty()) {
    say("{}", wrong);
    return lock_status::kSystem;
  }
  try {
    return options.no_fork ? take_and_become(options, -1) : Wrapper(options).run();
  } catch (const std::exception& error) {
    say("{}", error.what());
    return lock_status::kSystem;
  }
}

}  // namespace holdfast::cli
