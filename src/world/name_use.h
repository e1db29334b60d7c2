// Shows which file a dictionary's name stands for while the file is in use.
//
// A user of a dictionary holds the lock on its file (world/file_use.h). It also holds a shared record lock on the
// name's file (world/name_file.h), on a byte computed from the name (its hash) and the dictionary's file (its inode).
// Users do not notice when a file is deleted by hand, or when another file is moved over it. But a process that opens
// the name afterwards finds a lock for the same name and another inode, and is refused.
//
// A process takes its own lock before it checks for other locks. So if two processes open two files of one name at the
// same time, at least one of them sees the lock of the other.
//
// A file that was removed properly does not block its name, because its users find it marked as retired. The process
// that removes it records the file's byte in the name's file, after it sets the mark and before it removes the name. If
// the record is lost, new processes are refused until the last user of the removed file has detected the removal, but
// they are never admitted by mistake.
//
// The record of byte b is in one of the 16 words, numbered modulo 256, that begin at number
// (b * 0x9E3779B97F4A7C15 mod 2^64) >> 32. A word whose byte is not locked may be reused. Records are written under the
// directory's lock, or by a process that creates a file with this byte and clears the byte's record.
//
// The locks are pinned by a mapping, inherited by fork, and released when the dictionary is unmapped. A name that is
// kept in use across exec has a separate file (world/kept_file.h). Processes search for such files only if a process of
// this world (runtime directory) has made one since the world last had no process.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

/// The bytes for names extend from here to the last byte that can be locked. Their numbers contain 36 bits of the
/// name's hash, followed by 26 bits of the inode.
inline constexpr std::uint64_t kNameLocks = std::uint64_t{1} << 62;
inline constexpr int kNameInodeBits = 26;
/// Returns the byte for a file with this name and inode.
inline std::uint64_t name_byte(const std::string& name, std::uint64_t inode) noexcept {
  const std::uint64_t hash = hash_key(name.data(), name.size(), 0) >> (kNameInodeBits + 2);
  return kNameLocks + (hash << kNameInodeBits | inode % (std::uint64_t{1} << kNameInodeBits));
}

/// Tries once to take this process's lock on the name. Returns the lock, or an empty mapping if another file of this
/// name is in use at this moment. `directory` must be anchored to the process table. If there is no anchor, no names
/// are in use, and the result is empty. REQUIRES: no other file has the name, or the caller checks afterwards which
/// file has it.
Expected<platform::Mapping> hold_name(const RuntimeDirectory& directory, const std::string& name, std::uint64_t inode);

/// Does the same for a file that is about to get its name. Fails with mismatch if another file of this name stays in
/// use.
Expected<platform::Mapping> hold_new_name(const RuntimeDirectory& directory, const std::string& name,
                                          std::uint64_t inode);

/// Returns a descriptor that, as long as it is open anywhere, shows that the name stands for this file, and that the
/// file is in use. Returns an empty descriptor if there is no anchor. REQUIRES: this process holds the name for that
/// file, and the caller checks that the file has the name.
Expected<platform::FileDescriptor> keep_name(const RuntimeDirectory& directory, const std::string& name,
                                             std::uint64_t inode);

/// Returns the error of hold_new_name(), use_dictionary_file() and keep_dictionary_file() for a name whose file was
/// replaced.
Status refuse_replaced(const RuntimeDirectory& directory, const std::string& name);

/// Records that a dictionary's file of an anchored directory was removed. Does nothing for other files and directories.
class RemovedNote {
 public:
  /// Does everything that needs descriptors or memory. Call this before the file is marked.
  static Expected<RemovedNote> prepare(const RuntimeDirectory& directory, const std::string& name);
  /// Records the removed file. REQUIRES: the file is marked, still has its name, and the directory's lock is held.
  void write(std::uint64_t inode) noexcept;

 private:
  RemovedNote(const RuntimeDirectory* directory, platform::FileDescriptor file, std::string name)
      : directory_(directory), file_(std::move(file)), name_(std::move(name)) {}
  static Expected<platform::FileDescriptor> open(const RuntimeDirectory& directory, const std::string& name);

  const RuntimeDirectory* directory_;  // null: nothing to record
  platform::FileDescriptor file_;
  std::string name_;
};

}  // namespace holdfast
