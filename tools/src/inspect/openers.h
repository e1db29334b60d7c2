// Finds out from /proc which processes have mapped which files of a runtime directory. The time for this is limited,
// because the kernel has to list all mappings of a process, which takes 50 to 200 µs per process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inspect/files.h"

namespace holdfast::inspect {

class Openers {
 public:
  /// Inspects these processes, for at most about `seconds`. `directory`: the runtime directory.
  static Openers read(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds);

  /// Returns the sorted pids of the processes that have mapped the file.
  const std::vector<std::uint32_t>& of(std::uint64_t inode) const;
  /// Returns the names of dictionary files that were deleted or moved while these processes had them mapped, indexed by
  /// inode. Omits a file that only its creator has mapped, because /proc does not show this file's name.
  const std::map<std::uint64_t, std::string>& deleted() const noexcept { return deleted_; }
  /// Returns whether all processes were inspected. If not, some are inaccessible to this user, or there was not enough
  /// time.
  bool complete() const noexcept { return in_time_ && closed_.empty(); }
  /// Limits the result to these processes. Other processes then no longer affect complete().
  void limit_to(const std::vector<std::uint32_t>& pids);

 private:
  void add(std::uint32_t pid, const std::string& maps, const std::string& device, const std::string& directory);

  std::map<std::uint64_t, std::vector<std::uint32_t>> pids_of_;
  std::map<std::uint64_t, std::string> deleted_;
  std::vector<std::uint32_t> closed_;
  bool in_time_ = true;
};

/// Returns the sorted pids of the processes that have one of these files of the directory open. Takes at most about
/// `seconds`.
std::vector<std::uint32_t> pids_that_keep(const std::string& directory, const std::vector<KeptUse>& uses,
                                          const std::vector<std::uint32_t>& pids, double seconds);

}  // namespace holdfast::inspect
