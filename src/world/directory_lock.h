// The lock on a runtime directory under which names are removed: between judging a file and unlinking its name no other
// process of this library can put a new file there and lose it. Giving names needs no lock (linkat never replaces).
#pragma once

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class DirectoryLock {
 public:
  /// `directory_fd`: a description of its own, which outlives the lock. `busy` after five seconds: a process may be
  /// stopped while it holds it.
  static Expected<DirectoryLock> acquire(int directory_fd, const std::string& path);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) noexcept : fd_(fd) {}

  platform::ForkGuard guard_;  // a child would share the description, and with it the lock
  int fd_;
};

}  // namespace holdfast
