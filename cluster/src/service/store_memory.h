// Which store a cluster has: its id, kept in a file, so that an agent that is started again knows it.
#pragma once

#include <string>

#include "base/status.h"

namespace holdfast::agent {

class StoreMemory {
 public:
  /// In the state directory of the configuration, else in that of the service manager ($STATE_DIRECTORY), else in the
  /// runtime directory, which the machine forgets when it boots.
  StoreMemory(const std::string& configured, const std::string& runtime_directory, const std::string& cluster);

  const std::string& path() const noexcept { return path_; }
  /// The id, as decimal digits; empty: none is kept. A file that says anything else is an error.
  Expected<std::string> read() const;
  /// Replaces the file as a whole, and returns once it is on the disk.
  Status write(const std::string& id) const;

 private:
  std::string directory_;
  std::string name_;
  std::string path_;
};

}  // namespace holdfast::agent
