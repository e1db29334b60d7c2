// Which processes have which files of a runtime directory mapped, as /proc tells. It takes some 50 to 200 µs for each
// process, as all that it has mapped is listed; so the time is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inspect/files.h"

namespace holdfast::inspect {

class Openers {
 public:
  /// Looks at these processes, for about so many seconds. `directory`: the runtime directory.
  static Openers read(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds);

  /// The pids that have that file, in order.
  const std::vector<std::uint32_t>& of(std::uint64_t inode) const;
  /// Names of files of dictionaries that were deleted or moved while these processes had them mapped, by inode. A
  /// process that has made its file knows it by no name.
  const std::map<std::uint64_t, std::string>& deleted() const noexcept { return deleted_; }
  /// Whether all were looked at: some may be closed to this user, or time was over.
  bool complete() const noexcept { return in_time_ && closed_.empty(); }
  /// What is asked concerns these processes only: that others are closed does not matter.
  void limit_to(const std::vector<std::uint32_t>& pids);

 private:
  void add(std::uint32_t pid, const std::string& maps, const std::string& device, const std::string& directory);

  std::map<std::uint64_t, std::vector<std::uint32_t>> pids_of_;
  std::map<std::uint64_t, std::string> deleted_;
  std::vector<std::uint32_t> closed_;
  bool in_time_ = true;
};

/// Which of these processes have such a file of the directory open, in order. Looks for about so many seconds.
std::vector<std::uint32_t> pids_that_keep(const std::string& directory, const std::vector<KeptUse>& uses,
                                          const std::vector<std::uint32_t>& pids, double seconds);

}  // namespace holdfast::inspect
