// The lock on a runtime directory under which names are removed: between judging a file and unlinking its name, no
// other process can put a new file there and lose it. Dictionaries also get their names under it, one at a time
// (world/new_file.cc); other files need no lock for that, as linkat never replaces.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class DirectoryLock {
 public:
  static constexpr std::uint64_t kPatienceNs = 5 * kNsPerSecond;
  /// `directory_fd`: a description of its own that outlives the lock. `busy` after the patience: its holder may be
  /// stopped.
  static Expected<DirectoryLock> acquire(int directory_fd, const std::string& path,
                                         std::uint64_t patience_ns = kPatienceNs);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) noexcept : fd_(fd) {}

  platform::ForkGuard guard_;  // a child would share the description, and with it the lock
  int fd_;
};

}  // namespace holdfast
