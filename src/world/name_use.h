// Shows which file a dictionary's name stands for while the file is in use.
//
// A user of a dictionary holds the lock on its file (world/file_use.h), and a shared record lock on the name's file
// (world/name_file.h): on the byte for the name (its hash) and the dictionary's file (its inode). Users do not notice
// when a file is deleted by hand, or when another file is moved over it. A process that opens the name then finds a
// lock of that name with another inode, and is refused.
//
// It takes its own lock first, then looks for other locks. So if two processes come with two files at the same time, at
// least one sees the lock of the other.
//
// A file that was removed properly blocks no name, because its users find it marked as retired. The remover records its
// byte in the name's file, after that mark and before the name disappears. If the record is lost, newcomers are kept
// out until the last user of the removed file has noticed the removal. They are never let in by mistake.
//
// The locks are pinned by a mapping, inherited by fork, and end when the dictionary is unmapped. A use that survives
// exec has a separate file (world/kept_file.h). Such files are searched for only once this world (runtime directory)
// has had such a use.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

/// Names use the bytes from here to the last that can be locked: 36 bits of hash, 26 of the inode.
inline constexpr std::uint64_t kNameLocks = std::uint64_t{1} << 62;
inline constexpr int kNameInodeBits = 26;
/// Returns the byte for that file under that name.
inline std::uint64_t name_byte(const std::string& name, std::uint64_t inode) noexcept {
  const std::uint64_t hash = hash_key(name.data(), name.size(), 0) >> (kNameInodeBits + 2);
  return kNameLocks + (hash << kNameInodeBits | inode % (std::uint64_t{1} << kNameInodeBits));
}

/// Tries once: returns the lock, or an empty mapping if another file of that name is in use, even for a moment.
/// `directory` must be anchored to the process table; without an anchor no names are in use, and the result is empty.
/// REQUIRES: no other file has the name, or the caller checks again which file has it.
Expected<platform::Mapping> hold_name(const RuntimeDirectory& directory, const std::string& name, std::uint64_t inode);

/// Does the same for a file that is about to get its name. Fails with mismatch if the file is still refused.
Expected<platform::Mapping> hold_new_name(const RuntimeDirectory& directory, const std::string& name,
                                          std::uint64_t inode);

/// Shows by a descriptor, as long as it is open anywhere, that the name stands for that file, and that the file is in
/// use. Returns an empty descriptor without an anchor. REQUIRES: this process holds the name for that file, and the
/// caller checks that the file has it.
Expected<platform::FileDescriptor> keep_name(const RuntimeDirectory& directory, const std::string& name,
                                             std::uint64_t inode);

/// Returns the refusal that hold_new_name(), use_dictionary_file() and keep_dictionary_file() return.
Status refuse_replaced(const RuntimeDirectory& directory, const std::string& name);

/// Records removed files, which are dictionaries of an anchored directory. Otherwise does nothing.
class RemovedNote {
 public:
  /// Does, before the file is marked, everything that can fail for lack of descriptors or memory.
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
