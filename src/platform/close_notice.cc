#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

constexpr unsigned kShareNothing = 2;  // CLOSE_RANGE_UNSHARE
constexpr std::uint64_t kLongestNs = std::uint64_t{1000} * 1'000'000'000;

// Gives the calling thread a new, empty descriptor table in one system call. The process keeps its descriptors.
int leave_descriptors() noexcept {
#ifdef SYS_close_range
  return ::syscall(SYS_close_range, 0U, ~0U, kShareNothing) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

}  // namespace

int CloseNotice::open(const char* path, const FileId& file) noexcept {
  if (const int error = leave_descriptors()) return error;
  FileDescriptor fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return errno;
  if (::inotify_add_watch(fd.get(), path, IN_CLOSE_WRITE) < 0) return errno;
  const FileDescriptor same(::open(path, O_PATH | O_CLOEXEC));
  if (!same) return errno;
  if (!is_file(same.get(), file)) return ESTALE;
  fd_ = std::move(fd);
  return 0;
}

bool CloseNotice::wait(std::uint64_t deadline_ns) noexcept {
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t left = deadline_ns > now ? std::min(deadline_ns - now, kLongestNs) : 0;
  pollfd one{fd_.get(), POLLIN, 0};
  const int found = ::poll(&one, 1, static_cast<int>((left + kNsPerMs - 1) / kNsPerMs));
  if (found == 0) return false;
  if (found < 0 || (one.revents & POLLIN) == 0) {
    sleep_until(now + std::min<std::uint64_t>(left, kNsPerMs));  // the kernel has refused to wait: do not spin
    return false;
  }
  alignas(inotify_event) char events[4096];
  while (::read(fd_.get(), events, sizeof events) > 0) {
  }
  return true;
}

}  // namespace holdfast::platform
