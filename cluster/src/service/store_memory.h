// Keeps the id of a cluster's store in a file, so that a restarted agent knows the store.
#pragma once

#include <string>

#include "base/status.h"

namespace holdfast::agent {

class StoreMemory {
 public:
  /// Uses the first of these directories that is known: the configured state directory, the service manager's state
  /// directory ($STATE_DIRECTORY), or the runtime directory, which is empty after a boot.
  StoreMemory(const std::string& configured, const std::string& runtime_directory, const std::string& cluster);

  const std::string& path() const noexcept { return path_; }
  /// Returns the id as decimal digits, or an empty string if there is no file. Any other content of the file is an
  /// error.
  Expected<std::string> read() const;
  /// Replaces the whole file, and returns once it is on disk.
  Status write(const std::string& id) const;

 private:
  std::string directory_;
  std::string name_;
  std::string path_;
};

}  // namespace holdfast::agent
