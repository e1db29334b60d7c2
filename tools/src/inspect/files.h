// Reads the files of a runtime directory from outside: their headers and their status in the file system. Opens no file
// as a dictionary, takes no lock and changes nothing, whatever the files contain.
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

  std::string name;        // of the file
  std::string dictionary;  // name of the dictionary, if the file is named like a dictionary
  std::string trouble;     // why the file cannot be read; empty if it can
  bool is_missing = false;

  // From the file system.
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

  // From the header. All fields are unknown unless `is_holdfast`. If the layout is a different one, only the fields
  // before `retired` are known.
  bool is_holdfast = false;
  std::uint32_t layout = 0;
  Kind kind = Kind::other;
  std::uint32_t persist = 0;  // a Persist (world/world_file.h); not 0 if the file outlives the last process
  bool retired = false;
  bool retired_by_damage = false;  // a part of the file was missing
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
/// Returns whether a process has the file open, or uses it across exec (world/kept_file.h); true if unknown.
bool is_in_use(const std::string& directory, const WorldFile& file);

/// A file that records the use of a dictionary across exec (world/kept_file.h).
struct KeptUse {
  std::uint64_t byte = 0;   // name_byte() of world/name_use.h
  std::uint64_t inode = 0;  // inode of the file that records the use; 0 if unreadable
};
/// Returns the uses that count, including uses whose end the kernel does not report. `byte` selects the file of one
/// dictionary; 0 means all files. Returns nothing if the directory cannot be read.
std::optional<std::vector<KeptUse>> read_kept_uses(const std::string& directory, std::uint64_t byte = 0);
/// Returns whether a program uses the file across exec; true if unknown.
bool is_use_kept(const std::string& directory, const WorldFile& file);
/// Returns whether any use across exec was ever recorded in the directory's world. If not, programs do not look for
/// these files.
bool was_any_use_kept(const std::string& directory);

/// Returns the layout that this library reads and writes.
std::uint32_t our_layout() noexcept;

/// Whether to read only the file system's status or also the header. To read the header, the file must be opened, and
/// the more users it has, the longer the kernel takes to close it.
enum class Read { status, header };

/// Reads one file. `is_regular` is false if the file does not exist.
WorldFile read_file(const std::string& directory, const std::string& name, Read what = Read::header);
/// Reads the file of a dictionary.
WorldFile read_dictionary_file(const std::string& directory, const std::string& dictionary, Read what = Read::header);
/// Reads all files, sorted by name. Omits files that are not published yet (.new-*), and files that record uses across
/// exec (hold-*, use-*).
Expected<std::vector<WorldFile>> read_files(const std::string& directory);
/// Returns the names of all dictionary files, sorted. Opens no file; some may not be dictionaries of this world.
Expected<std::vector<std::string>> named_dictionaries(const std::string& directory);
/// Returns what the process table records about each name file: a note_of_name_file() (world/name_file.h), or any other
/// value.
std::array<std::uint64_t, kNameFiles> read_name_file_notes(const std::string& directory);
/// Returns whether the file belongs to a process table other than the one in its directory.
bool is_of_another_world(const std::string& directory, const std::string& dictionary);
/// Returns whether no process uses the file and it belongs to an earlier world, which did not keep it for the next
/// world.
bool is_left_by_another_world(const std::string& directory, const std::string& dictionary);
/// Returns whether new programs cannot open the file, because its users entered through a different process table,
/// which was removed or replaced. `world` is the id in the present table; empty if there is no table.
bool is_used_by_another_world(const std::string& directory, const WorldFile& file, const std::string& world);
/// Returns the dictionaries that processes use although the process table is missing. Empty if there is a table.
std::vector<std::string> dictionaries_without_table(const std::string& directory);

}  // namespace holdfast::inspect
