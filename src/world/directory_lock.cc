#include "world/directory_lock.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "world/backoff.h"

namespace holdfast {

Expected<DirectoryLock> DirectoryLock::acquire(int directory_fd, const std::string& path, std::uint64_t patience_ns) {
  const std::uint64_t deadline = platform::monotonic_ns() + patience_ns;
  for (Backoff backoff;;) {
    int error = 0;
    {
      // The guard is in the object, so that no fork comes between locking and owning, and forks do not wait below.
      DirectoryLock lock(directory_fd);
      error = platform::try_lock_description(directory_fd);
      if (error == 0) return Expected<DirectoryLock>(std::move(lock));
      lock.fd_ = -1;
    }
    if (error != EWOULDBLOCK) {
      return Status{Code::system, "cannot lock directory " + path + ": " + platform::error_text(error)};
    }
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= deadline) {
      return Status{Code::busy, "directory " + path + " has been locked by another process for " +
                                    std::to_string(patience_ns / kNsPerSecond) + " s (is one stopped?)"};
    }
    platform::sleep_until(std::min(now + backoff.next_ns(), deadline));
  }
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) platform::unlock_description(fd_);
}

}  // namespace holdfast
