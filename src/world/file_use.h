// Who uses a dictionary's file, and what becomes of one whose world is gone.
//
// A process that has a dictionary mapped holds a shared record lock on kUseLock of its file, taken before the file was
// mapped: the mapping pins the description. So fork inherits the lock with the mapping, closing descriptors does not
// end it, and it goes with the last mapping. An exclusive lock on that byte is the proof that nobody uses the file.
//
// The file says of which world it is. Tokens, waiters and mutex words in it mean something only there:
//
//   the file is of     | somebody uses it                  | nobody does
//   -------------------+-----------------------------------+---------------------------------------------------------
//   this world         | joined                            | joined
//   another world, or  | refused: those who use it and     | not persistent: retired; persistent: adopted, that is,
//   it is a copy       | this process would not know of    | what it says of processes is dropped and its data stays,
//                      | each other                        | but refused in another time namespace, whose clock differs
//
// What was decided is decided again once the lock is held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "platform/platform.h"
#include "world/world_file.h"

namespace holdfast {

class RuntimeDirectory;

/// Behind the end of every file; dictionaries whose mutex is `file` use the bytes of their shards' numbers.
inline constexpr std::uint64_t kUseLock = (std::uint64_t{1} << 39) + 1;

/// A dictionary's file that this process uses, as soon as it has mapped it.
struct UsedFile {
  OpenedFile file;
  /// Not null: the caller has it alone, until finish_adoption(), and drops what the file says of processes first. No
  /// child is forked meanwhile, which would have it alone, too.
  std::unique_ptr<platform::ForkGuard> adopting;
  /// Says to others that the name is this file's; the caller keeps it as long as the file is mapped.
  platform::Mapping name;
};

/// not_found as open_world_file(). mismatch: processes of another world use it, or processes of this world use another
/// file that had its name. busy: somebody adopts it, and is stopped.
Expected<UsedFile> use_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                       const WorldId& world);

/// Makes an adopted file one of this world and lets others in. Killed before its end, the next one adopts it again.
Status finish_adoption(const OpenedFile& file, const WorldId& world);

/// What a process does that enters a world in which nobody lives, and the last one that leaves: retires every
/// dictionary that is not persistent and that nobody of another world uses, and removes what creators that died left
/// unnamed. Files that cannot be judged stay, so that opening them says what is wrong with them.
/// REQUIRES: the process table's record lock, and nobody else present.
void retire_unpersistent_files(const RuntimeDirectory& directory, const WorldId& world);

}  // namespace holdfast
