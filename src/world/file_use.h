// Marks a dictionary's file as in use, and decides how to treat a file from another world (runtime directory).
//
// A process that has a dictionary mapped holds a shared record lock on kUseLock of its file. The lock is taken before
// the file is mapped, and the mapping pins the open file description. So a forked child inherits the lock with the
// mapping, closing descriptors does not release the lock, and the lock ends with the last mapping. A process that gets
// an exclusive lock on this byte knows that the file is not in use.
//
// The file names its world. Its tokens, waiters and mutex words are meaningful only in that world:
//
//   file belongs to    | in use                            | not in use
//   -------------------+-----------------------------------+---------------------------------------------------------
//   this world         | joined                            | joined
//   another world, or  | refused: its users and            | A temporary file is retired. Any other file is adopted:
//   is a copy          | this process would not know       | what it says about processes is dropped, and its data
//                      | about each other                  | stays. In another time namespace, whose clock differs,
//                      |                                   | a kept file is retired; a persistent file is refused.
//
// An adopted file need not be searched for owners: each world begins the generations of its slots at a different
// number, so old tokens do not belong to living processes.
//
// The decision is repeated once the lock is held. If a dictionary is kept in use across exec, the lock is on a separate
// file (world/kept_file.h). This is necessary because a descriptor of the dictionary's file would let the new program
// read and write the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"
#include "world/world_file.h"

namespace holdfast {

class RuntimeDirectory;

/// A byte beyond the end of every file. A byte with a smaller number n is the lock for the mutex of shard n with
/// strategy `file`.
inline constexpr std::uint64_t kUseLock = (std::uint64_t{1} << 39) + 1;

/// Returns the name of the dictionary with this file, or nothing for any other file, such as a foreign file with the
/// same suffix.
std::optional<std::string> dictionary_of_file(std::string_view file);

/// A dictionary's file that this process has mapped and uses.
struct UsedFile {
  OpenedFile file;
  /// If this is not null, the file is being adopted, and only the caller uses it until finish_adoption(). Before
  /// calling finish_adoption(), the caller must drop what the file says about processes. No child is forked in the
  /// meantime, because the child would share the lock.
  std::unique_ptr<platform::ForkGuard> adopting;
  /// Shows other processes that the name stands for this file. Keep this mapping while the file is mapped.
  platform::Mapping name;
};

/// Opens the file, maps it and marks it as in use. Fails with not_found, as open_world_file() does; with mismatch if
/// processes of another world use the file, or if processes of this world use another file that had this name; with
/// busy if the process that adopts the file is stopped.
Expected<UsedFile> use_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                       const WorldId& world);

/// Does the same for a process that only reads. Does not take a lock, and refuses a file of another world (mismatch)
/// instead of adopting or retiring it. In the result, `adopting` and `name` are empty.
Expected<UsedFile> look_at_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                           const WorldId& world);

/// Retires an unused file, for an open that needs another size or mutex. `id` identifies the file that the caller has
/// examined. Does nothing if the name now leads to another file, or if the file has become persistent. Fails with
/// exists if the file is in use. REQUIRES: the caller does not use the file.
Status retire_unused_file(const RuntimeDirectory& directory, const std::string& name, const platform::FileId& id);

/// Makes an adopted file part of this world and admits other processes. Writes the boot id, the time namespace and the
/// inode, then the world id. If the process is killed before the last write, the next process adopts the file again.
/// REQUIRES: the mutexes are 0, the used shards are repaired, and the dictionary has a new range of fencing tokens.
Status finish_adoption(const OpenedFile& file, const WorldId& world);

/// Shows other processes that this process uses the file with this inode, as long as the returned descriptor is open
/// anywhere, even after exec. Returns an empty descriptor if the directory has no anchor. Fails with mismatch if the
/// name no longer leads to this file.
Expected<platform::FileDescriptor> keep_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                                        const WorldId& world, std::uint64_t inode);

/// Retires every temporary dictionary that no other world uses. Removes temporary files of dead creators, and name
/// files of other worlds. The first process that enters a world does this, and so does the last process that leaves. A
/// file whose state is unknown stays, so that a process that opens it gets an error. Fails if it could not begin.
/// REQUIRES: the process table's record lock is held, and no other process is present.
Status retire_unpersistent_files(const RuntimeDirectory& directory, const WorldId& world);

}  // namespace holdfast
