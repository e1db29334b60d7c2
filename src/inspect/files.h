// The files of a runtime directory, from outside: what their first bytes and the file system say of them. Opens none as
// a dictionary, takes no lock and changes nothing, whatever is in them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast::inspect {

struct WorldFile {
  enum class Kind { processes, dictionary, other };

  std::string name;        // of the file
  std::string dictionary;  // name of the dictionary, if the file is named as one
  std::string trouble;     // why it cannot be read; empty if it can

  // From the file system.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_taken = 0;  // of the file system
  std::uint32_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
  bool is_regular = false;
  std::uint32_t links = 0;

  // From the header. Without `is_holdfast` nothing of it is known, with another layout only that.
  bool is_holdfast = false;
  std::uint32_t layout = 0;
  Kind kind = Kind::other;
  bool persist = false;
  bool retired = false;
  std::uint32_t made_mode = 0;
  std::uint64_t made_bytes = 0;
  std::uint64_t made_inode = 0;
  std::string world;  // its id, as hexadecimal digits
  std::uint32_t shards = 0;
  std::string mutex;  // "futex", "spin", "file"

  bool has_our_layout() const noexcept;
};

/// The layout that this library reads and writes.
std::uint32_t our_layout() noexcept;

/// One file; `is_regular` is false if there is none.
WorldFile read_file(const std::string& directory, const std::string& name);
/// The file of a dictionary.
WorldFile read_dictionary_file(const std::string& directory, const std::string& dictionary);
/// All of them by name, but for what is not born yet (.new-*).
Expected<std::vector<WorldFile>> read_files(const std::string& directory);

}  // namespace holdfast::inspect
