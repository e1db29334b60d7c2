#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

struct flock region(short type, std::uint64_t first, std::uint64_t count) noexcept {
  struct flock lock {};  // l_pid must be 0 for locks of a description
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(first);
  lock.l_len = static_cast<off_t>(count);
  return lock;
}

int set_lock(int fd, short type, std::uint64_t byte) noexcept {
  give_back_left_over();
  struct flock lock = region(type, byte, 1);
  if (uninterrupted([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); }) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

}  // namespace

int try_record_lock(int fd, std::uint64_t byte) noexcept { return set_lock(fd, F_WRLCK, byte); }

int try_shared_record_lock(int fd, std::uint64_t byte) noexcept { return set_lock(fd, F_RDLCK, byte); }

int record_unlock_all(int fd) noexcept {
  struct flock lock = region(F_UNLCK, 0, 0);
  return uninterrupted([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); }) == 0 ? 0 : errno;
}

int record_unlock(int fd, std::uint64_t byte) noexcept { return set_lock(fd, F_UNLCK, byte); }

int find_record_lock(int fd, std::uint64_t first, std::uint64_t count, std::uint64_t& holder) noexcept {
  holder = kNoHolder;
  if (count == 0) return 0;
  struct flock lock = region(F_WRLCK, first, count);
  if (uninterrupted([&] { return ::fcntl(fd, F_OFD_GETLK, &lock); }) != 0) return errno;
  if (lock.l_type != F_UNLCK) holder = static_cast<std::uint64_t>(lock.l_start);
  return 0;
}

bool has_record_locks(int fd) noexcept {
  constexpr std::uint64_t kEveryByte = std::uint64_t{1} << 62;
  std::uint64_t holder = kNoHolder;
  return find_record_lock(fd, 0, kEveryByte, holder) != 0 || holder != kNoHolder;
}

int try_lock_description(int fd) noexcept {
  return uninterrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
}

int unlock_description(int fd) noexcept { return ::flock(fd, LOCK_UN) == 0 ? 0 : errno; }

}  // namespace holdfast::platform
