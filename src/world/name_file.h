// The files `names-00` to `names-63`, for the record locks that tell which names are in use (world/name_use.h).
//
// The kernel keeps the record locks of a file in one list and walks it for each question. A thousand processes with a
// hundred dictionaries each hold a hundred thousand of these locks: on `processes` each question whether a process
// lives would pass them all. So they have files of their own, and a name's file is chosen by its hash.
//
// A file is made when a name first needs it, and goes with the last process of the world. The process table keeps its
// inode: locks on a file that was deleted by hand are seen by nobody, so its successor is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::size_t kNameFiles = 64;
inline constexpr std::string_view kNameFilePrefix = "names-";
/// Notes of removed files (world/name_use.h), in the header page.
inline constexpr std::size_t kRemovedNotes = 256;
inline constexpr std::size_t kRemovedNotesOffset = 256;

std::string name_file_name(std::size_t number);

/// A fresh description of that file, which is made if it is missing. mismatch: it was deleted, moved or replaced while
/// processes were in the world.
/// REQUIRES: the directory is anchored.
Expected<platform::FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number);

/// Others may be made from now on.
/// REQUIRES: the process table's record lock, and no other process present.
void forget_name_files(const RuntimeDirectory& directory) noexcept;

}  // namespace holdfast
