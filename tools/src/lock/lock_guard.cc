#include "lock/lock_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "inspect/proc.h"
#include "lock/lock_hold.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

/// How long a running parent may take to end the hold, and how often to check the parent.
constexpr int kParentMs = 1000;
constexpr int kLookAtParentEveryMs = 10;
/// How often to search for members of the job. Each search reads all of /proc.
constexpr int kLookAtJobEveryMs = 100;

struct Guarded {
  std::string key;
  FoundJob job;
  LockEnd lock_end;
};

/// Closes all other descriptors, so that the guard keeps no pipe and no file system busy.
void close_all_but(std::array<int, 5> kept) noexcept {
  std::sort(kept.begin(), kept.end());
  unsigned next = 0;
  for (const int one : kept) {
    if (one < 0) continue;
    const auto descriptor = static_cast<unsigned>(one);
    if (descriptor > next) close_between(next, descriptor - 1);
    next = descriptor + 1;
  }
  close_between(next, ~0U);
}

bool is_gone_or_stopped(int parent, pid_t pid) {
  pollfd ended{parent, POLLIN, 0};
  if (::poll(&ended, 1, 0) != 0) return true;
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(pid));
  return !stat || stat->is_stopped();
}

/// Ends a job whose lock ends, if the parent does not end it.
class EndOfJob {
 public:
  /// `command` and `parent` are pidfds.
  EndOfJob(int command, int parent, const Guarded& guarded)
      : command_(command), parent_(parent), job_(guarded.job), lock_end_(guarded.lock_end) {}

  /// Sends the signals that are due. Returns the milliseconds until the next call.
  int step() {
    const double now = holdfast_now();
    const auto ending = kill_at_ ? std::nullopt : lock_end_.due(now);
    if (ending && is_gone_or_stopped(parent_, parent_pid_)) {
      signal_job(SIGTERM);
      kill_at_ = ending->kill_at;
    }
    if (kill_at_ && now >= *kill_at_) {
      signal_job(SIGKILL);
      kill_at_ = now + kLookAtJobEveryMs / 1e3;  // members may have started other processes
    }
    constexpr double kLongestMs = 1e9;
    const double next = kill_at_ ? *kill_at_ : lock_end_.next(now);
    return static_cast<int>(std::clamp((next - now) * 1e3, 0.0, kLongestMs)) + 1;
  }

 private:
  void signal_job(int signal) const {
    ::syscall(SYS_pidfd_send_signal, command_, signal, nullptr, 0);  // the command may have no mark
    for (const pid_t member : marked_members(job_))
      if (member != job_.command) ::kill(member, signal);
  }

  const int command_;
  const int parent_;
  const pid_t parent_pid_ = ::getppid();
  const FoundJob& job_;
  LockEnd lock_end_;
  std::optional<double> kill_at_;
};

/// Waits until no member of the job is left, and the parent will not end the hold: it has ended, is stopped, or has had
/// enough time.
void await_end_of_job(int parent, const FoundJob& job, EndOfJob& end) {
  const pid_t pid = ::getppid();
  pollfd ended{parent, POLLIN, 0};
  ::poll(&ended, 1, kLookAtParentEveryMs);  // usually, the parent ends the hold and this process immediately
  int idle = 0;                             // milliseconds since a member was last seen
  while (idle < kParentMs) {
    const bool alone = is_gone_or_stopped(parent, pid);
    const bool is_time = alone || idle + kLookAtParentEveryMs >= kParentMs;
    const bool has_members = is_time && (!marked_members(job).empty() ||
                                         (!alone && !descending_members(pid, job.command, job.group, {}).empty()));
    if (alone && !has_members) return;
    idle = has_members ? 0 : idle + kLookAtParentEveryMs;
    ::poll(nullptr, 0, std::min(end.step(), has_members ? kLookAtJobEveryMs : kLookAtParentEveryMs));
  }
}

/// Runs the guard's process. It blocks all signals and detaches from the terminal, because a signal that ends the
/// command and its parent must not end the guard first.
[[noreturn]] void guard(int child, int parent, Guarded guarded, Hold& hold, std::atomic<bool>& acts) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  set_title(fmt::format("holdfast: guard of {}", guarded.key));
  ::prctl(PR_SET_NAME, "holdfast-guard");
  const auto [life, keeper, use] = hold.descriptors();
  close_all_but({child, parent, life, keeper, use});
  if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
  guarded.job.file = name_of_file(life);
  EndOfJob end(child, parent, guarded);
  pollfd ended{child, POLLIN, 0};
  while (::poll(&ended, 1, end.step()) <= 0) continue;
  await_end_of_job(parent, guarded.job, end);
  acts.store(true, std::memory_order_release);  // pairs with has_acted(); set before anybody else can get the lock
  hold.end();
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

void LockGuard::prepare(pid_t child, pid_t group) {
#ifdef SYS_pidfd_open
  child_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  parent_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
#endif
  job_ = {make_job_mark(child), child, group, {}, ::getpid()};
  void* const memory = ::mmap(nullptr, sizeof *acts_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) acts_ = std::construct_at(static_cast<std::atomic<bool>*>(memory), false);
}

bool LockGuard::start(Hold& hold, const std::string& key, const LockEnd& lock_end) {
  if (child_.get() < 0 || parent_.get() < 0 || acts_ == nullptr) return false;
  const Guarded guarded{key, job_, lock_end};
  pid_ = ::fork();
  if (pid_ == 0) guard(child_.get(), parent_.get(), guarded, hold, *acts_);
  return pid_ > 0;
}

void LockGuard::end() noexcept {
  const pid_t guard = std::exchange(pid_, 0);
  if (guard <= 0) return;
  ::kill(guard, SIGKILL);
  ::waitpid(guard, nullptr, 0);
}

}  // namespace holdfast::cli
