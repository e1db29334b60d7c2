#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "platform/platform.h"

namespace holdfast::platform {

std::string error_text(int error) { return std::generic_category().message(error); }

int above_standard(int fd) noexcept {
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return above;
}

void FileDescriptor::reset(int fd) noexcept {
  if (fd_ >= 0) {
    const int saved = errno;  // a destructor on an error path must not change errno
    ::close(fd_);
    errno = saved;
  }
  fd_ = fd;
}

int file_id(int fd, FileId& id) noexcept {
  struct stat info;
  if (::fstat(fd, &info) != 0) return errno;
  id = {.device = info.st_dev, .inode = info.st_ino};
  return 0;
}

bool is_file(int fd, const FileId& id) noexcept {
  FileId found;
  return fd >= 0 && file_id(fd, found) == 0 && found == id;
}

FileDescriptor reopen(int fd, int flags) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return FileDescriptor(::open(path, flags | O_CLOEXEC | O_NONBLOCK));
}

int list_directory(int directory_fd, const std::function<bool(const char*)>& visit) {
  const FileDescriptor own(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own) return errno;
  // Does not use readdir(), which needs memory from the heap and further calls.
  alignas(dirent64) std::array<char, 4096> entries;
  for (;;) {
    const long size = ::syscall(SYS_getdents64, own.get(), entries.data(), entries.size());
    if (size <= 0) return size < 0 ? errno : 0;
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      if (!visit(entry->d_name)) return ECANCELED;
      at += entry->d_reclen;
    }
  }
}

int reserve(int fd, std::uint64_t reserved, std::uint64_t size) noexcept {
  // If a signal arrives, tmpfs undoes the whole call. Each step takes only a millisecond or two, so it finishes even if
  // a profiling timer sends signals.
  constexpr std::uint64_t kStep = std::uint64_t{4} << 20;
  for (std::uint64_t at = 0; at < reserved;) {
    const std::uint64_t step = std::min(kStep, reserved - at);
    const auto reserve_step = [&] {
      errno = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(step));
      return errno == 0 ? 0 : -1;
    };
    if (uninterrupted(reserve_step) != 0) return errno;
    at += step;
  }
  if (reserved == size) return 0;
  return uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size)); }) == 0 ? 0 : errno;
}

std::uint64_t file_size_limit() noexcept {
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;
}

std::uint64_t free_bytes(int fd) noexcept {
  struct statvfs info;
  if (::fstatvfs(fd, &info) != 0 || info.f_blocks == 0) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace holdfast::platform
