// The files `names-00` to `names-63`, on which record locks show which names are in use (world/name_use.h).
//
// The kernel keeps the record locks of a file in a list, which it walks for each query. A thousand processes that each
// have a hundred dictionaries hold a hundred thousand of these locks. If the locks were on `processes`, each query
// about a process would walk all of them. So the locks are on separate files, which are chosen by the hash of the name.
//
// A file is made when a name first needs it, and exists as long as the process table. If such a file were deleted by
// hand, no process would see the locks on it. So the table records the inodes of the files, each with a check. If a
// recorded file is missing, or has another inode, another number or another world (runtime directory), the file is
// refused until the world has no process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"
#include "world/fencing.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::size_t kNameFiles = 64;
/// The number of records of removed files in the header page (world/name_use.h).
inline constexpr std::size_t kRemovedNotes = 256;
inline constexpr std::size_t kRemovedNotesOffset = 256;

inline constexpr std::string_view kNameFilePrefix = "names-";

/// Returns the name of the file. REQUIRES: number < kNameFiles.
inline std::string name_file_name(std::size_t number) {
  return std::string(kNameFilePrefix) + static_cast<char>('0' + number / 10) + static_cast<char>('0' + number % 10);
}
bool is_name_file(std::string_view file) noexcept;

/// Opens a new description of the file with this number. Fails with not_found if the file does not exist yet; with
/// mismatch if it was deleted, moved or replaced while processes were in the world. REQUIRES: the directory is
/// anchored.
Expected<platform::FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number);

/// Does the same, but makes the file if it does not exist.
Expected<platform::FileDescriptor> open_or_make_name_file(const RuntimeDirectory& directory, std::size_t number);

/// Returns whether the file `name`, which has the name of a name file, belongs to this world and has the number in its
/// name.
bool is_sound_name_file(const RuntimeDirectory& directory, const std::string& name);

/// Allows new files again. Call this before deleting the old files. REQUIRES: the process table's record lock is held,
/// and no other process is present.
void forget_name_files(const RuntimeDirectory& directory) noexcept;

/// Returns the process table's record of a file. A record of 0 means that there is no file.
constexpr std::uint64_t note_of_name_file(std::uint64_t inode) noexcept {
  constexpr std::uint64_t kInodes = std::uint64_t{1} << 36;
  return seal(inode % kInodes + 1);
}
/// Returns whether the record is valid. An overwritten record is not.
constexpr bool is_note_of_name_file(std::uint64_t word) noexcept { return word != 0 && is_sealed(word); }

}  // namespace holdfast
