// Reads the files of a runtime directory from outside the world: their headers and their status in the file system.
// Opens no file as a dictionary, takes no lock and changes nothing, whatever the files contain.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "world/name_file.h"

namespace holdfast::inspect {

/// The process table: the file that makes a directory a world.
inline constexpr const char* kProcessTable = "processes";

struct WorldFile {
  enum class Kind { processes, dictionary, names, other };

  std::string name;        // the file's name
  std::string dictionary;  // the dictionary's name, if the file is named like a dictionary
  std::string trouble;     // why the file cannot be read; empty if it can
  bool is_missing = false;

  // These members come from the file system.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_taken = 0;  // bytes occupied in the file system
  std::uint32_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
  bool is_regular = false;
  bool is_directory = false;
  std::uint32_t links = 0;

  // These members come from the file's header. All are unknown unless `is_holdfast` is true. If the file has a
  // different layout, only the members before `retired` are known.
  bool is_holdfast = false;
  std::uint32_t layout = 0;
  Kind kind = Kind::other;
  std::uint32_t persist = 0;  // a Persist (world/world_file.h); not 0 if the file is kept when nobody uses it
  bool retired = false;
  bool retired_by_damage = false;  // the file was retired because a part of it was missing
  std::uint32_t made_mode = 0;
  std::uint64_t made_bytes = 0;
  std::uint64_t made_inode = 0;
  std::string world;  // the world's id in hexadecimal
  std::uint32_t shards = 0;
  std::string mutex;  // "futex", "spin", "file"

  bool has_our_layout() const noexcept;
};

/// Returns "temporary", "kept" or "persistent": the lifetime of the file's dictionary.
const char* life_in_words(const WorldFile& file) noexcept;
/// Returns true if a process has the file open or uses it across exec (world/kept_file.h), or if this is unknown.
bool is_in_use(const std::string& directory, const WorldFile& file);

/// A file that records the use of a dictionary across exec (world/kept_file.h).
struct KeptUse {
  std::uint64_t byte = 0;   // name_byte() of world/name_use.h
  std::uint64_t inode = 0;  // inode of the file that records the use; 0 if unreadable
};
/// Returns the uses that have not ended, including uses whose end the kernel does not report. `byte` selects the file
/// of one dictionary; 0 means all files. Returns nothing if the directory cannot be read.
std::optional<std::vector<KeptUse>> read_kept_uses(const std::string& directory, std::uint64_t byte = 0);
/// Returns true if a program uses the file across exec, or if this is unknown.
bool is_use_kept(const std::string& directory, const WorldFile& file);
/// Returns whether any use across exec was ever recorded in the directory's world. If not, programs do not search for
/// files that record uses.
bool was_any_use_kept(const std::string& directory);

/// Returns the layout that this library reads and writes.
std::uint32_t our_layout() noexcept;

/// Selects whether to read only a file's status in the file system, or also its header. Reading the header requires
/// opening the file, and the more users the file has, the longer the kernel takes to close it.
enum class Read { status, header };

/// Reads one file. `is_regular` is false if the file does not exist.
WorldFile read_file(const std::string& directory, const std::string& name, Read what = Read::header);
/// Reads the file of a dictionary.
WorldFile read_dictionary_file(const std::string& directory, const std::string& dictionary, Read what = Read::header);
/// Reads all files, sorted by name. Omits files that are not published yet (.new-*), and files that record uses across
/// exec (hold-*, use-*).
Expected<std::vector<WorldFile>> read_files(const std::string& directory);
/// Returns the names of all dictionaries that have files in the directory, sorted. Opens no file, so some of them may
/// not belong to this world.
Expected<std::vector<std::string>> named_dictionaries(const std::string& directory);
/// Returns the value that the process table contains for each name file. It should be a note_of_name_file()
/// (world/name_file.h), but may be any other value.
std::array<std::uint64_t, kNameFiles> read_name_file_notes(const std::string& directory);
/// Returns whether the file belongs to a process table other than the one in its directory.
bool is_of_another_world(const std::string& directory, const std::string& dictionary);
/// Returns true if no process uses the file, and the file belongs to an earlier world, which did not keep it for the
/// next world.
bool is_left_by_another_world(const std::string& directory, const std::string& dictionary);
/// Returns true if new programs cannot open the file because its users entered the world through a different process
/// table, which was removed or replaced. `world` is the id in the present table, or empty if there is no table.
bool is_used_by_another_world(const std::string& directory, const WorldFile& file, const std::string& world);
/// Returns the dictionaries that processes use although the process table is missing. If there is a table, the result
/// is empty.
std::vector<std::string> dictionaries_without_table(const std::string& directory);

}  // namespace holdfast::inspect
