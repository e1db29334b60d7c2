// The files `names-00` to `names-63`, for the record locks that tell which names are in use (world/name_use.h).
//
// The kernel keeps the record locks of a file in one list and walks it for each question. A thousand processes with a
// hundred dictionaries each hold a hundred thousand of these locks: on `processes` each question whether a process
// lives would pass them all. So they have files of their own, and a name's file is chosen by its hash.
//
// A file is made when a name first needs it, and goes with the last process of the world. Locks on a file that was
// deleted by hand are seen by nobody. So the process table keeps which were made, and one that is missing then, or is
// not of this world, is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::size_t kNameFiles = 64;
/// Notes of removed files (world/name_use.h), in the header page.
inline constexpr std::size_t kRemovedNotes = 256;
inline constexpr std::size_t kRemovedNotesOffset = 256;

std::string name_file_name(std::size_t number);
bool is_name_file(std::string_view file) noexcept;

/// A fresh description of that file. not_found if it was not made yet; mismatch: it was deleted, moved or replaced
/// while processes were in the world. REQUIRES: the directory is anchored.
Expected<platform::FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number);

/// The same, but it is made if there is none.
Expected<platform::FileDescriptor> open_or_make_name_file(const RuntimeDirectory& directory, std::size_t number);

/// Others may be made from now on.
/// REQUIRES: the process table's record lock, and no other process present.
void forget_name_files(const RuntimeDirectory& directory) noexcept;

}  // namespace holdfast
