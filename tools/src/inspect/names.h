// Which names of dictionaries are in use, as the record locks on the files of names tell (world/name_use.h), and those
// on the files of uses that are kept over exec (world/kept_file.h). Only looks: it takes no lock.
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
  /// `files`: those of the directory. Looks a second time before it reports: a file that is about to be born has a lock
  /// and no name yet.
  static Names read(const std::string& directory, const std::vector<WorldFile>& files);

  /// Files of names that are missing though they were made, or are something else: number, and whether it is missing.
  const std::map<std::size_t, bool>& unsound() const noexcept { return unsound_; }
  /// Bytes of names that are in use for files which have no name any more, and were not removed in order.
  const std::vector<std::uint64_t>& lost() const noexcept { return lost_; }
  /// Whether programs that come are refused the dictionary of the file.
  bool refuses(const WorldFile& file) const;

 private:
  static Names look(const std::string& directory, const std::vector<WorldFile>& files);
  void add_lost_uses(const std::vector<KeptUse>& uses, const std::set<std::uint64_t>& named);

  std::map<std::size_t, bool> unsound_;
  std::vector<std::uint64_t> lost_;
};

/// How many dictionaries programs that come are refused: those with that trouble, those of refused names, those in use
/// that lost their name, and those in use whose table of processes is missing. `troubled`: names of the first.
std::size_t count_refused(const std::string& directory, const std::vector<std::string>& troubled);

}  // namespace holdfast::inspect
