// Finds which names of dictionaries are in use. Reads the record locks on name files (world/name_use.h) and the files
// that record uses across exec (world/kept_file.h). Takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "inspect/files.h"

namespace holdfast::inspect {

class Names {
 public:
  /// `files` are all files in the directory. Reports a name as lost only after a second check, because a file that is
  /// being created has a record lock but no name yet.
  static Names read(const std::string& directory, const std::vector<WorldFile>& files);

  /// Returns the numbers of the name files that are missing (true) or were replaced (false).
  const std::map<std::size_t, bool>& unsound() const noexcept { return unsound_; }
  /// Returns the lock bytes of dictionary names that are in use although their files were deleted or moved without a
  /// regular removal.
  const std::vector<std::uint64_t>& lost() const noexcept { return lost_; }
  /// Returns whether new programs cannot open the dictionary in the file.
  bool refuses(const WorldFile& file) const;

 private:
  static Names read_once(const std::string& directory, const std::vector<WorldFile>& files);
  void add_lost_uses(const std::vector<KeptUse>& uses, const std::set<std::uint64_t>& named);

  std::map<std::size_t, bool> unsound_;
  std::vector<std::uint64_t> lost_;
};

/// Counts the dictionaries that new programs cannot open. These are the dictionaries in `troubled`, dictionaries with
/// unusable names, and dictionaries in use whose name or process table is lost.
std::size_t count_refused(const std::string& directory, const std::vector<std::string>& troubled);

}  // namespace holdfast::inspect
