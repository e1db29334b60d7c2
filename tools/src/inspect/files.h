// The files of a runtime directory, from outside: what their first bytes and the file system say of them. Opens none as
// a dictionary, takes no lock and changes nothing, whatever is in them.
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

/// The file that makes a directory a world.
inline constexpr const char* kProcessTable = "processes";

struct WorldFile {
  enum class Kind { processes, dictionary, names, other };

  std::string name;        // of the file
  std::string dictionary;  // name of the dictionary, if the file is named as one
  std::string trouble;     // why it cannot be read; empty if it can
  bool is_missing = false;

  // From the file system.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_taken = 0;  // of the file system
  std::uint32_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
  bool is_regular = false;
  bool is_directory = false;
  std::uint32_t links = 0;

  // From the header. Without `is_holdfast` nothing of it is known, with another layout what stands before `retired`.
  bool is_holdfast = false;
  std::uint32_t layout = 0;
  Kind kind = Kind::other;
  std::uint32_t persist = 0;  // a Persist (world/world_file.h): not 0 if it outlives the last process
  bool retired = false;
  bool retired_by_damage = false;  // a part of the file was missing
  std::uint32_t made_mode = 0;
  std::uint64_t made_bytes = 0;
  std::uint64_t made_inode = 0;
  std::string world;  // its id, as hexadecimal digits
  std::uint32_t shards = 0;
  std::string mutex;  // "futex", "spin", "file"

  bool has_our_layout() const noexcept;
};

/// "temporary", "kept" or "persistent": how long its dictionary lives.
const char* life_in_words(const WorldFile& file) noexcept;
/// Whether a process has it open, or uses it over exec; true if that is not known.
bool is_in_use(const std::string& directory, const WorldFile& file);

/// A file by which a program uses a dictionary over exec (world/kept_file.h).
struct KeptUse {
  std::uint64_t byte = 0;   // name_byte() of world/name_use.h
  std::uint64_t inode = 0;  // of the file that says so; 0 if it cannot be read
};
/// Those that count: uses for which the kernel does not say whether they have ended, too. `byte`: of one dictionary's
/// file; 0: all. Nothing if the directory cannot be read.
std::optional<std::vector<KeptUse>> read_kept_uses(const std::string& directory, std::uint64_t byte = 0);
/// Whether a program uses it over exec; true if that is not known.
bool is_use_kept(const std::string& directory, const WorldFile& file);
/// Whether any use was ever kept in the world of the directory: else programs do not look at such files.
bool was_any_use_kept(const std::string& directory);

/// The layout that this library reads and writes.
std::uint32_t our_layout() noexcept;

/// What the file system says, or what the header says besides. The kernel's work to close a file grows with its users.
enum class Read { status, header };

/// One file; `is_regular` is false if there is none.
WorldFile read_file(const std::string& directory, const std::string& name, Read what = Read::header);
/// The file of a dictionary.
WorldFile read_dictionary_file(const std::string& directory, const std::string& dictionary, Read what = Read::header);
/// All of them by name, but for what is not born yet (.new-*), and for what programs keep over exec (hold-*, use-*).
Expected<std::vector<WorldFile>> read_files(const std::string& directory);
/// The dictionaries that files are named for, in order. It opens none: some may be no dictionaries of this world.
Expected<std::vector<std::string>> named_dictionaries(const std::string& directory);
/// What the process table keeps of each file of names in use: note_of_name_file() (world/name_file.h), or anything.
std::array<std::uint64_t, kNameFiles> read_name_file_notes(const std::string& directory);
/// Whether the file has another table of processes than the one beside it.
bool is_of_another_world(const std::string& directory, const std::string& dictionary);
/// Whether it is of no process: of a world that was here before, and not kept for the next.
bool is_left_by_another_world(const std::string& directory, const std::string& dictionary);
/// Whether programs that come are refused it, as processes use it that entered by another table of processes, which was
/// removed or replaced. `world`: of the table that is there; empty if none is.
bool is_used_by_another_world(const std::string& directory, const WorldFile& file, const std::string& world);
/// Dictionaries that processes use though their table of processes is missing. None where there is one.
std::vector<std::string> dictionaries_without_table(const std::string& directory);

}  // namespace holdfast::inspect
