#include "lock/descriptor_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/descriptor.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "lock/file_lock.h"
#include "lock/lock_taker.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

/// A keeper locks one byte at or after the position kBytes, which is beyond the end of any file. The byte's position
/// modulo kPids is the keeper's pid. The rest of the position is random, because keepers in different pid namespaces
/// may have the same pid.
constexpr off_t kBytes = off_t{1} << 62;
constexpr off_t kPids = off_t{1} << 23;
constexpr off_t kKinds = off_t{1} << 30;
/// How often the keeper checks its byte if inotify reports nothing.
constexpr int kAskEveryMs = 1000;
constexpr int kEndSeconds = 5;
constexpr const char* kProgram = "holdfast-keeper";  // the keeper's name

struct flock bytes(short type, off_t first, off_t count) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = count;
  return range;
}

/// Opens the descriptor's file again, for reading or, if that fails, for writing. Does not open a pipe, because a
/// second reader or writer would change how the pipe behaves.
Descriptor open_again(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0 || S_ISFIFO(file.st_mode)) {
    errno = EINVAL;
    return {};
  }
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  for (const int access : {O_RDONLY, O_WRONLY})
    if (Descriptor again(::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)); again.get() >= 0)
      return again;
  return {};
}

/// Adds the pids of the keepers that have locked bytes from `first` up to `end`, but not through the open file
/// description of `own`.
void find_keepers(int own, off_t first, off_t end, std::set<pid_t>& keepers) {
  if (first >= end) return;
  struct flock found = bytes(F_WRLCK, first, end - first);
  if (::fcntl(own, F_OFD_GETLK, &found) != 0 || found.l_type == F_UNLCK) return;
  if (found.l_start < first || found.l_len != 1) return;  // a lock on the whole file hides the keepers' bytes
  keepers.insert(static_cast<pid_t>((found.l_start - kBytes) % kPids));
  find_keepers(own, first, found.l_start, keepers);
  find_keepers(own, found.l_start + 1, end, keepers);
}

std::set<pid_t> keepers_of(int own) {
  std::set<pid_t> keepers;
  find_keepers(own, kBytes, kBytes + kPids * kKinds, keepers);
  return keepers;
}

/// Returns the descriptors of this process, except the standard descriptors.
std::vector<int> open_descriptors() {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) return found;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const auto number = inspect::whole_number_of(entry->d_name);
    if (number && *number > STDERR_FILENO && static_cast<int>(*number) != ::dirfd(folder.get()))
      found.push_back(static_cast<int>(*number));
  }
  return found;
}

/// Returns a pidfd of the keeper, or an empty Descriptor if the keeper was killed.
Descriptor open_keeper(pid_t keeper) {
  Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, keeper, 0)));
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(keeper));
  return stat && stat->program == kProgram ? std::move(process) : Descriptor();
}

class Keeper {
 public:
  Keeper(const LockOptions& options, int channel) : taker_(options), options_(options), channel_(channel) {}

  [[noreturn]] void run() {
    const int status = start();
    // Do this before the caller continues. A descriptor that stayed open here would keep the caller's own flock(2).
    if (status == 0) leave_caller();
    report(status);
    if (status != 0) std::_Exit(status);
    ::close(channel_);
    keep();
    taker_.give_back();
    std::exit(0);
  }

 private:
  int start() {
    own_ = open_again(options_.fd);
    if (own_.get() < 0) return refuse("cannot be opened again");
    if (const auto refused = taker_.take()) return *refused;
    const bool writes = (::fcntl(options_.fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    byte_ = kBytes + static_cast<off_t>(std::random_device()() % kKinds) * kPids + ::getpid();
    struct flock byte = bytes(writes ? F_WRLCK : F_RDLCK, byte_, 1);
    if (::fcntl(options_.fd, F_OFD_SETLK, &byte) != 0) {
      if (options_.is_flock()) std::_Exit(report(0));  // only the flock(2) is held, which needs no keeper
      return refuse("cannot be watched");
    }
    ::prctl(PR_SET_PDEATHSIG, 0);
    return 0;
  }

  int report(int status) const {
    [[maybe_unused]] const ssize_t told = ::write(channel_, &status, sizeof status);
    return status;
  }

  int refuse(const char* what) const {
    say("descriptor {} {}: {}", options_.fd, what, std::strerror(errno));
    return lock_status::kSystem;
  }

  void keep() {
    const std::string path = fmt::format("/proc/self/fd/{}", own_.get());
    const Descriptor events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    ::inotify_add_watch(events.get(), path.c_str(), IN_CLOSE);  // if this fails, the keeper checks every second
    std::array<char, 4096> ignored;
    while (is_open()) {
      pollfd closed{events.get(), POLLIN, 0};
      ::poll(&closed, 1, kAskEveryMs);
      while (::read(events.get(), ignored.data(), ignored.size()) > 0) continue;
    }
  }

  /// Closes the descriptors inherited from the caller, and detaches from the caller's terminal and signals, so that
  /// nothing waits for the keeper.
  void leave_caller() const {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();
    set_title(fmt::format("holdfast: keeper of {}", options_.key));
    ::prctl(PR_SET_NAME, kProgram);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
    for (const int fd : inherited_)
      if (fd != channel_) ::close(fd);
    if (::chdir("/") != 0) return;
  }

  bool is_open() const {
    struct flock byte = bytes(F_WRLCK, byte_, 1);
    return ::fcntl(own_.get(), F_OFD_GETLK, &byte) != 0 || byte.l_type != F_UNLCK;
  }

  LockTaker taker_;
  const LockOptions& options_;
  const int channel_;
  const std::vector<int> inherited_ = open_descriptors();
  Descriptor own_;  // another descriptor of the same file
  off_t byte_ = 0;
};

int start_keeper(const LockOptions& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const Descriptor answer(ends[0]);
  Descriptor channel(ends[1]);
  const pid_t self = ::getpid();
  const pid_t keeper = ::fork();
  if (keeper < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (keeper == 0) {
    follow_parent(self, SIGKILL);
    Keeper(options, channel.get()).run();
  }
  channel.reset();
  int status = lock_status::kSystem;
  if (::read(answer.get(), &status, sizeof status) == sizeof status) return status;
  // The keeper has ended without an answer.
  int ended = 0;
  ::waitpid(keeper, &ended, 0);
  return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : status;
}

/// Returns whether the descriptor already has a flock(2). If so, another call to flock(2) would change the lock's kind.
bool holds_flock(int fd) {
  const auto info = inspect::read_whole(fmt::format("/proc/self/fdinfo/{}", fd));
  return info && info->find("FLOCK ") != std::string::npos;
}

/// Takes only the flock(2) of the descriptor. Returns the exit status.
int take_descriptor(const LockOptions& options) {
  const double deadline =
      options.timeout == kForEver ? std::numeric_limits<double>::infinity() : holdfast_now() + options.timeout;
  const int error = take_flock(options.fd, options.shared, deadline, nullptr);
  return error == 0 ? 0 : refuse_flock(options, error);
}

/// Changes the kind of a held flock(2). Takes the visible lock only if it is free. If this process waited for it, a
/// process that has the visible lock and waits for this flock(2) would never continue.
int change_flock(const LockOptions& options) {
  // Linux drops the lock's old kind even if the new kind is refused.
  if (const int status = take_descriptor(options); status != 0) {
    unlock_descriptor(options.fd);
    return status;
  }
  unlock_descriptor(options.fd);
  LockOptions visible = options;
  visible.file = -1;
  visible.timeout = 0;
  visible.quiet = true;
  start_keeper(visible);
  return 0;
}

}  // namespace

bool is_open_or_said(int fd) {
  const bool was_closed = fd <= STDERR_FILENO && holdfast::was_closed[static_cast<std::size_t>(fd)];
  if (!was_closed && ::fcntl(fd, F_GETFD) >= 0) return true;
  say("{}: {}", fd, std::strerror(EBADF));
  return false;
}

int lock_descriptor(const LockOptions& options) {
  if (!is_open_or_said(options.fd)) return lock_status::kData;
  if (!options.is_flock()) return start_keeper(options);
  if (holds_flock(options.fd)) return change_flock(options);
  unlock_descriptor(options.fd);  // ends the keeper of a lock that another process released
  // If the file cannot be opened again, a keeper could not watch the descriptor. A flock(2) alone does not need a
  // keeper.
  return open_again(options.fd).get() >= 0 ? start_keeper(options) : take_descriptor(options);
}

// Through a descriptor, the kernel does not show the locks of the descriptor's own open file description. So the
// keepers of this descriptor are visible only through a new description of the file.
std::set<pid_t> keepers_of_descriptor(int fd) {
  const Descriptor again = open_again(fd);
  struct flock any = bytes(F_WRLCK, kBytes, 1);
  const bool can_have_locks = ::fcntl(fd, F_OFD_GETLK, &any) == 0;  // false if it is open with O_PATH
  if (again.get() < 0 || !can_have_locks) return {};
  std::set<pid_t> keepers = keepers_of(again.get());
  for (const pid_t keeper : keepers_of(fd)) keepers.erase(keeper);
  return keepers;
}

int unlock_descriptor(int fd) {
  std::map<pid_t, Descriptor> keepers;
  for (const pid_t keeper : keepers_of_descriptor(fd)) keepers[keeper] = open_keeper(keeper);
  struct flock all = bytes(F_UNLCK, kBytes, kPids * kKinds);
  ::fcntl(fd, F_OFD_SETLK, &all);
  open_again(fd);  // wakes the keepers
  int ended = 0;
  for (const auto& [pid, process] : keepers) {
    if (process.get() < 0) continue;
    pollfd end{process.get(), POLLIN, 0};
    ::poll(&end, 1, kEndSeconds * 1000);
    ++ended;
  }
  return ended;
}

}  // namespace holdfast::cli
