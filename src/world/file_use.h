// Use of a dictionary's file, and what becomes of a file from another world.
//
// A process that has a dictionary mapped holds a shared record lock on kUseLock of its file, taken before the file was
// mapped: the mapping pins the description. So fork inherits the lock with the mapping, closing descriptors does not
// end it, and it goes with the last mapping. An exclusive lock on that byte proves that the file is not in use.
//
// The file says of which world it is. Tokens, waiters and mutex words in it mean something only there:
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
// are those of dead processes.
//
// The decision is made again once the lock is held. A use that outlives exec is no lock on the file, which could be
// read and written then: it has a file of its own (world/kept_file.h).
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

/// Behind the end of every file. The mutex `file` of shard n locks byte n.
inline constexpr std::uint64_t kUseLock = (std::uint64_t{1} << 39) + 1;

/// The name of the dictionary with that file; nothing if it is the file of something else: others may have put theirs
/// here under the same suffix.
std::optional<std::string> dictionary_of_file(std::string_view file);

/// A dictionary's file that this process uses, as soon as it has mapped it.
struct UsedFile {
  OpenedFile file;
  /// Not null: the caller alone has the file until finish_adoption(), and drops what it says of processes first. No
  /// child is forked meanwhile: it would share the lock.
  std::unique_ptr<platform::ForkGuard> adopting;
  /// Tells others that the name is this file's. Keep it as long as the file is mapped.
  platform::Mapping name;
};

/// not_found as open_world_file(). mismatch: processes of another world use it, or processes of this world use another
/// file that had its name. busy: the process that adopts it is stopped.
Expected<UsedFile> use_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                       const WorldId& world);

/// The same for a process that only looks: takes no lock, and neither adopts nor retires what is of another world, but
/// refuses it (mismatch). `adopting` and `name` are empty.
Expected<UsedFile> look_at_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                           const WorldId& world);

/// Retires a file that is not in use, for an open that wants another size or mutex. `id`: the file that was
/// judged; if the name leads to another one by now, or the file is persistent by now, nothing is done. exists: it is in
/// use. REQUIRES: the caller does not use it.
Status retire_unused_file(const RuntimeDirectory& directory, const std::string& name, const platform::FileId& id);

/// Makes an adopted file part of this world and lets others in. Killed inside, the next process adopts it again.
Status finish_adoption(const OpenedFile& file, const WorldId& world);

/// Tells others that the file with that inode, which this process uses, is in use, as long as the descriptor is open
/// anywhere: over exec, too. None without an anchor. mismatch: the name leads to no file any more, or to another.
Expected<platform::FileDescriptor> keep_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                                        const WorldId& world, std::uint64_t inode);

/// Retires every temporary dictionary that is not in use by another world, and removes temporary files of dead
/// creators and files of names that are not of this world. The first process that enters a world does this, and the
/// last one that leaves. Files that cannot be judged stay, so that opening them tells what is wrong. Fails if it could
/// not begin. REQUIRES: the process table's record lock, and no other process present.
Status retire_unpersistent_files(const RuntimeDirectory& directory, const WorldId& world);

}  // namespace holdfast
