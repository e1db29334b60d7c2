#include "lock/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>
#include <sstream>

#include "cli/output.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

namespace {

/// While this object lives, SIGALRM interrupts system calls, first after `first` seconds. The signal is repeated,
/// because a signal that arrives just before a call does not interrupt the call.
class Alarms {
 public:
  explicit Alarms(double first) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGALRM, &action, &before_);
    sigset_t alarm;
    ::sigemptyset(&alarm);
    ::sigaddset(&alarm, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &alarm, &mask_);
    constexpr double kAgain = 0.05;
    const itimerval timer{as_timeval(kAgain), as_timeval(std::max(first, 1e-6))};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~Alarms() {
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static timeval as_timeval(double seconds) {
    const double whole = std::floor(seconds);
    return {static_cast<time_t>(whole), static_cast<suseconds_t>((seconds - whole) * 1e6)};
  }
  struct sigaction before_ {};
  sigset_t mask_{};
};

/// Returns the pid of the process that took the file's flock(2), as the kernel shows it.
std::optional<std::uint32_t> pid_in_proc_locks(const struct stat& file) {
  const auto locks = inspect::read_whole("/proc/locks");
  if (!locks) return std::nullopt;
  // "1: FLOCK  ADVISORY  WRITE 4711 00:1b:1234 0 EOF"; "1: -> FLOCK ..." is a waiter.
  const std::string id =
      fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), static_cast<std::uint64_t>(file.st_ino));
  std::istringstream lines(*locks);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, pid, inode;
    words >> number >> kind >> advisory >> access >> pid >> inode;
    const auto found = inspect::whole_number_of(pid);
    if (kind == "FLOCK" && inode == id && found) return static_cast<std::uint32_t>(*found);
  }
  return std::nullopt;
}

bool reopen_for_writing(int fd) {
  const int again = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (again < 0) return false;
  const int flags = ::fcntl(fd, F_GETFD);
  const bool done = ::dup3(again, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) >= 0;
  ::close(again);
  return done;
}

}  // namespace

std::string flock_holder(int fd) {
  struct stat file {};
  const auto pid = ::fstat(fd, &file) == 0 ? pid_in_proc_locks(file) : std::nullopt;
  if (!pid) return "another process";
  const auto stat = inspect::read_stat(*pid);
  if (!stat) return fmt::format("a process that inherited it from pid {}", *pid);
  return fmt::format("pid {} ({})", *pid, inspect::escaped(stat->program));
}

// An interrupted wait begins again behind all other waiters.
int take_flock(int fd, bool shared, double deadline, const std::function<void()>& waiting) {
  const int operation = shared ? LOCK_SH : LOCK_EX;
  bool reopened = false;
  for (bool blocks = false;;) {
    std::optional<Alarms> alarms;
    const double left = deadline - holdfast_now();
    const double pause = waiting ? std::min(1.0, left) : left;
    if (blocks && std::isfinite(pause)) alarms.emplace(pause);
    if (::flock(fd, operation | (blocks ? 0 : LOCK_NB)) == 0) return 0;
    const int error = errno;
    if ((error == EIO || error == EBADF) && !shared && !reopened && reopen_for_writing(fd)) {
      reopened = true;
      continue;
    }
    if (error != EWOULDBLOCK && error != EINTR) return error;
    if (holdfast_now() >= deadline) return EWOULDBLOCK;
    alarms.reset();
    if (waiting) waiting();
    blocks = true;
  }
}

int refuse_flock(const LockOptions& options, int error) {
  if (error == EWOULDBLOCK) {
    if (!options.quiet)
      say_in_time("{} is locked by {}, with flock(2)", quote_key(options.key), flock_holder(options.file));
    return options.conflict;
  }
  say_in_time("cannot lock {}: {}", quote_key(options.key), std::strerror(error));
  return error == ENOLCK || error == ENOMEM ? lock_status::kSystem : lock_status::kData;
}

}  // namespace holdfast::cli
