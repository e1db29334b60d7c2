#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

constexpr std::uint64_t kTimeoutNs = 5 * kNsPerSecond;

}  // namespace

// --- the end of another process ---------------------------------------------------------------------------

int ProcessEnd::open(pid_t pid) noexcept {
  pid_ = pid;
#ifdef SYS_pidfd_open
  fd_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (fd_) return 0;
  if (errno == ESRCH) return ESRCH;
#endif
  // This code is for Linux before 5.3, and for sandboxes that refuse the call above. EPERM means that the process is
  // alive and belongs to another user.
  return ::kill(pid, 0) == 0 || errno == EPERM ? 0 : errno;
}

void ProcessEnd::wait() const noexcept {
  pollfd end{fd_.get(), POLLIN, 0};
  while (fd_) {
    const int found = ::poll(&end, 1, -1);
    if (found > 0 && (end.revents & POLLIN) != 0) return;
    if (found > 0 || errno != EINTR) break;  // another thread has closed the descriptor, or the kernel has refused
  }
  while (::kill(pid_, 0) == 0 || errno == EPERM) sleep_until(monotonic_ns() + kNsPerSecond);
}

// --- an independent process ----------------------------------------------------------------------------------

namespace {

/// Reads a whole file of /proc. Returns an errno value.
int read_all(const char* path, std::string& text) {
  const FileDescriptor fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return errno;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t got = uninterrupted([&] { return ::read(fd.get(), part.data(), part.size()); });
    if (got < 0) return errno;
    if (got == 0) return 0;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

void close_from(unsigned first, unsigned last) noexcept {
  if (first > last) return;
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
  const long most = ::sysconf(_SC_OPEN_MAX);
  const unsigned end = most > 0 ? std::min(last, static_cast<unsigned>(most)) : std::min(last, 65535U);
  for (unsigned fd = first; fd <= end; ++fd) ::close(static_cast<int>(fd));
}

/// Closes all descriptors except `kept` (-1 for none), and opens /dev/null as the first three.
void close_all_but(int kept) noexcept {
  const auto fd = static_cast<unsigned>(kept);
  if (kept > 0) close_from(0, fd - 1);
  close_from(fd + 1, ~0U);
  for (int standard = 0; standard < 3; ++standard)
    if (standard != kept) static_cast<void>(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

/// A line of /proc/self/maps.
struct MapsLine {
  explicit MapsLine(const char* line) noexcept {
    char* at = nullptr;
    begin = std::strtoul(line, &at, 16);
    end = std::strtoul(at + 1, &at, 16);
    shared = at[4] == 's';
    std::strtoul(at + 6, &at, 16);  // the offset
    const unsigned long major = std::strtoul(at, &at, 16);
    const unsigned long minor = std::strtoul(at + 1, &at, 16);
    file = {.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor)),
            .inode = static_cast<ino_t>(std::strtoull(at, &at, 10))};
  }
  unsigned long begin = 0;
  unsigned long end = 0;
  bool shared = false;
  FileId file;
};

/// Unmaps shared memory, except mappings of the file `kept`. Otherwise, mapped dictionaries would stay in use, and the
/// host's shared memory would stay allocated. Returns an errno value.
int unmap_shared_but(const FileId& kept) {
  std::string maps;
  if (const int error = read_all("/proc/self/maps", maps)) return error;
  std::size_t next = 0;
  for (std::size_t at = 0; at < maps.size(); at = next) {
    next = std::min(maps.find('\n', at), maps.size() - 1) + 1;
    const MapsLine line(maps.c_str() + at);
    if (!line.shared || line.file == kept) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (::munmap(reinterpret_cast<void*>(line.begin), line.end - line.begin) != 0) return errno;
  }
  return 0;
}

/// Overwrites the command line that ps and top show. The write goes through /proc/self/mem, so it fails without a
/// signal if the memory is not mapped.
void set_command_line(const char* text) {
  std::string stat;
  if (read_all("/proc/self/stat", stat) != 0) return;
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  constexpr int kArgBegin = 48;          // fields of proc(5), counted from 1; the name is the second
  std::array<std::uint64_t, 4> place{};  // begin and end of the arguments, then of the environment
  const char* at = stat.c_str() + name_end + 1;
  for (int field = 3; field < kArgBegin && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  for (std::uint64_t& word : place) {
    if (at == nullptr) return;
    char* next = nullptr;
    word = std::strtoull(at, &next, 10);
    at = next;
  }
  const auto [begin, end, environ_begin, environ_end] = place;
  if (begin == 0 || begin >= end) return;
  // The environment follows the arguments. If the last byte of the arguments is not 0, the text continues into the
  // environment.
  const std::uint64_t room = (environ_begin == end ? environ_end : end) - begin;
  std::string bytes(text);
  bytes.resize(std::min<std::uint64_t>(bytes.size(), room - 1));
  bytes.resize(std::max<std::uint64_t>(bytes.size() + 1, end - begin));  // pad with zeros
  const FileDescriptor memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  // If this fails, ps shows the command line of the process that forked.
  [[maybe_unused]] const ssize_t written =
      memory ? ::pwrite(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(begin)) : 0;
}

/// Runs in the first child, for which its parent waits. The exit status is 0 or an errno value.
[[noreturn]] void begin_apart(const Apart& apart) noexcept {
  try {
    close_all_but(apart.descriptor);
    if (const int error = unmap_shared_but(apart.file)) ::_exit(error);
    if (!apart.begin(apart.argument)) ::_exit(0);
    const pid_t pid = ::fork();
    if (pid != 0) ::_exit(pid < 0 ? errno : 0);
    ::setsid();
    if (::chdir("/") != 0) ::_exit(1);
    name_this_thread(apart.name);
    set_command_line(apart.name);
    apart.body(apart.argument);
  } catch (...) {
    ::_exit(ENOMEM);
  }
  ::_exit(0);
}

}  // namespace

int start_apart(const Apart& apart) noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  // Block all signals, so that the host's handlers neither run in the new processes nor, in this process, reap the
  // first child.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t between = ::fork();
  int error = between < 0 ? errno : 0;
  if (between == 0) begin_apart(apart);
  // The wait takes a millisecond, unless the child is stopped. If the host reaps the child first, it is unknown whether
  // the second fork has failed.
  const std::uint64_t deadline = monotonic_ns() + kTimeoutNs;
  while (between > 0) {
    int status = 0;
    const pid_t ended = ::waitpid(between, &status, WNOHANG);
    if (ended == between) error = WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
    if (ended != 0) break;
    if (monotonic_ns() >= deadline) {
      error = ETIMEDOUT;
      break;
    }
    sleep_until(monotonic_ns() + kNsPerMs / 4);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace holdfast::platform
