// Use of a dictionary's file, and how a file from another world is treated.
//
// A process that has a dictionary mapped holds a shared record lock on kUseLock of its file, taken before the file was
// mapped: the mapping pins the description. So fork inherits the lock with the mapping, closing descriptors does not
// end it, and it ends with the last mapping. An exclusive lock on that byte proves that the file is not in use.
//
// The file names its world. Tokens, waiters and mutex words in it mean something only there:
//
//   the file is of     | in use                            | not in use
//   -------------------+-----------------------------------+---------------------------------------------------------
//   this world         | joined                            | joined
//   another world, or  | refused: its users and            | temporary: retired; else adopted, that is, what it says
//   it is a copy       | this process would not know of    | of processes is dropped and its data stays. In another
//                      | each other                        | time namespace, where its clock differs, a kept one is
//                      |                                   | retired, and a persistent one refused
//
// The owners in an adopted file need no walk: each world begins the generations of its slots elsewhere, so old tokens
// belong to dead processes.
//
// The decision is repeated once the lock is held. A use that survives exec has no lock on the file itself, because the
// program could then read and write the file: it has a separate file (world/kept_file.h).
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

/// Behind the end of every file. Shard n's mutex of strategy `file` locks byte n.
inline constexpr std::uint64_t kUseLock = (std::uint64_t{1} << 39) + 1;

/// Returns the name of the dictionary with that file; empty if it is some other file, as others may have put theirs
/// here with the same suffix.
std::optional<std::string> dictionary_of_file(std::string_view file);

/// A dictionary's file that this process uses, once it has mapped it.
struct UsedFile {
  OpenedFile file;
  /// Not null: only the caller has the file until finish_adoption(), and it must first drop what the file says of
  /// processes. No child is forked in the meantime: it would share the lock.
  std::unique_ptr<platform::ForkGuard> adopting;
  /// Shows others that the name belongs to this file. Keep it while the file is mapped.
  platform::Mapping name;
};

/// not_found: as for open_world_file(). mismatch: processes of another world use it, or processes of this world use
/// another file that had its name. busy: the process that adopts it is stopped.
Expected<UsedFile> use_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                       const WorldId& world);

/// The same for a process that only reads. It takes no lock, and refuses a file of another world (mismatch) instead of
/// adopting or retiring it. `adopting` and `name` are empty.
Expected<UsedFile> look_at_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                           const WorldId& world);

/// Retires a file that is not in use, for an open that wants another size or mutex. `id`: the file that was judged;
/// does nothing if the name now leads to another one, or if the file is now persistent. exists: it is in use. REQUIRES:
/// the caller does not use it.
Status retire_unused_file(const RuntimeDirectory& directory, const std::string& name, const platform::FileId& id);

/// Makes an adopted file part of this world and admits others. If the process is killed inside, the next one adopts the
/// file again.
Status finish_adoption(const OpenedFile& file, const WorldId& world);

/// Shows others that this process uses the file with that inode, as long as the descriptor is open anywhere, even after
/// exec. Empty without an anchor. mismatch: the name no longer leads to a file, or to another.
Expected<platform::FileDescriptor> keep_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                                        const WorldId& world, std::uint64_t inode);

/// Retires every temporary dictionary that no other world uses. Removes temporary files of dead creators, and files of
/// names from other worlds. The first process that enters a world does this, and the last one that leaves. Files that
/// cannot be judged stay, so that opening them reports the problem. Fails if it could not begin. REQUIRES: the process
/// table's record lock, and no other process present.
Status retire_unpersistent_files(const RuntimeDirectory& directory, const WorldId& world);

}  // namespace holdfast
