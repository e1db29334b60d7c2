// Finds, from /proc, which processes have mapped which files of a runtime directory. This takes 50 to 200 µs per
// process, because the kernel lists all mappings, so the time is limited.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inspect/files.h"

namespace holdfast::inspect {

class Openers {
 public:
  /// Reads these processes, for about `seconds`. `directory`: the runtime directory.
  static Openers read(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds);

  /// Returns the sorted pids of the processes that have mapped the file.
  const std::vector<std::uint32_t>& of(std::uint64_t inode) const;
  /// Returns, by inode, the names of dictionary files that were deleted or moved while these processes had them mapped.
  /// A process that created its file does not show a name for it.
  const std::map<std::uint64_t, std::string>& deleted() const noexcept { return deleted_; }
  /// Returns whether all processes were read. Some may be inaccessible to this user, or the time may be over.
  bool complete() const noexcept { return in_time_ && closed_.empty(); }
  /// Limits the result to these processes. Other processes that are inaccessible then no longer affect complete().
  void limit_to(const std::vector<std::uint32_t>& pids);

 private:
  void add(std::uint32_t pid, const std::string& maps, const std::string& device, const std::string& directory);

  std::map<std::uint64_t, std::vector<std::uint32_t>> pids_of_;
  std::map<std::uint64_t, std::string> deleted_;
  std::vector<std::uint32_t> closed_;
  bool in_time_ = true;
};

/// Returns those of the pids, sorted, that have such a file of the directory open. Takes at most about `seconds`.
std::vector<std::uint32_t> pids_that_keep(const std::string& directory, const std::vector<KeptUse>& uses,
                                          const std::vector<std::uint32_t>& pids, double seconds);

}  // namespace holdfast::inspect
