// Files of a world (runtime directory). They are created completely or not at all, and are checked before they are
// mapped.
//
// Every file begins with a FileHeader in a header page of kHeaderBytes. To create a file, an unnamed file is
// initialised, then linked into the directory. The space that will be touched is reserved first (posix_fallocate), so
// that a full /dev/shm makes the creation fail, instead of causing a SIGBUS later. A file may end in a hole, whose
// space is reserved when it is needed (dict/reserved.h). To open a file, the header page is read with pread into
// private memory and checked there; only then is the file mapped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::size_t kHeaderBytes = 4096;
// Tests build a library with another layout, and test both layouts together.
#ifndef HOLDFAST_LAYOUT
#define HOLDFAST_LAYOUT 7
#endif
inline constexpr std::uint32_t kLayoutVersion = HOLDFAST_LAYOUT;

enum class FileKind : std::uint32_t { processes = 1, dictionary = 2, names = 3 };

inline constexpr std::array<char, 8> kMagic = {'H', 'O', 'L', 'D', 'F', 'A', 'S', 'T'};
/// The suffix of dictionary files.
inline constexpr std::string_view kDictionarySuffix = ".dict";
/// The prefix of incomplete files that need a name. The file name of a dictionary never begins with a dot.
inline constexpr std::string_view kTemporaryPrefix = ".new-";
/// Returns a temporary name that no other file has.
std::string temporary_name();
/// Returns the number as 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t number);

/// Says why a file is no longer a part of its world. A handle makes a new dictionary only after kRetiredWithWorld.
/// kRetiredByDamage is a separate bit, which is set by a process that has lost a part of the file: see
/// platform/bus_guard.h.
enum Retired : std::uint32_t { kRetiredByName = 1, kRetiredWithWorld = 2, kRetiredByDamage = 4 };

/// A world's identity, which is random and never reused. It is made with the process table, and stored in every
/// dictionary, because tokens and fencing tokens are only meaningful within one world.
struct WorldId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const WorldId&, const WorldId&) = default;
};

/// The word `persist` of a file, which says how long the file exists.
enum Persist : std::uint32_t {
  kTemporary = 0,   // ends with the last process of its world
  kPersistent = 1,  // until it is removed; any other number means the same
  kKept = 2,  // until it is removed, but replaceable while unused: see use_dictionary_file(), retire_unused_file()
};

/// The first bytes of every file. All except `retired` and `persist` are constant while the file is in use.
struct FileHeader {
  std::array<char, 8> magic;  // kMagic
  std::uint32_t layout;       // kLayoutVersion, in the machine's byte order: a foreign order does not match
  FileKind kind;
  std::uint64_t size;                  // size of the file, in bytes
  std::atomic<std::uint32_t> persist;  // a Persist; raised by an open that asks for a longer lifetime
  std::atomic<std::uint32_t> retired;  // not 0: a Retired; its users then open a newer file
  std::array<char, 40> boot;           // boot id, not terminated; times of another boot are meaningless
  std::uint64_t time_namespace;        // times of another time namespace are meaningless, too
  std::uint32_t mode;                  // permission bits with which it was created; a file with more bits is refused
  std::uint32_t reserved;              // 0
  std::uint64_t inode;                 // the file's own inode, which differs in a copy
  WorldId world;                       // the id of the file's world
};
static_assert(sizeof(FileHeader) == 112 && offsetof(FileHeader, world) == 96);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// The lock on a runtime directory, which is needed to remove names. Without this lock, another process could put a new
/// file in place between the check of a file and the removal of its name. The new file would be lost. Dictionaries also
/// get their names under this lock, one at a time (world/new_file.cc). Other files do not need it to get a name,
/// because linkat never replaces a file.
class DirectoryLock {
 public:
  static constexpr std::uint64_t kTimeoutNs = 5 * kNsPerSecond;
  /// Takes the lock. `directory_fd` is a separate description that outlives the lock. Fails with `busy` after the
  /// timeout, because the lock's holder may be stopped.
  static Expected<DirectoryLock> acquire(int directory_fd, const std::string& path,
                                         std::uint64_t timeout_ns = kTimeoutNs);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) noexcept : fd_(fd) {}

  platform::ForkGuard guard_;  // a child would share the description, and thereby the lock
  int fd_;
};

/// Returns how users learn that a mapping of such a file was lost. A lost dictionary is reported to all users. A lost
/// process table is reported only to this process, because otherwise new processes would make another table while other
/// processes still use the lost table.
inline platform::LossMark loss_mark(FileKind kind) noexcept {
  return {.offset = offsetof(FileHeader, retired), .bits = kRetiredByDamage, .for_all = kind == FileKind::dictionary};
}

/// A header page in memory. It is not allocated on the stack, because threads of some hosts have small stacks.
struct alignas(64) HeaderPage : std::array<std::byte, kHeaderBytes> {};

/// A file that was opened and checked, but is not mapped yet.
struct OpenedFile {
  platform::FileDescriptor fd;
  platform::FileId id;
  std::unique_ptr<HeaderPage> page;  // a private copy; the geometry is computed only from it
  const FileHeader& header() const { return *reinterpret_cast<const FileHeader*>(page->data()); }
};

/// Opens `name`. It must be a regular file of the directory's owner with one link, and with no more permissions than it
/// was created with. It must have the right `kind`, the layout kLayoutVersion, and the size in its header. Otherwise,
/// the message says what was found and what was expected. Fails with not_found if there is no such file, or if it has
/// lost its name in the meantime. Retires an unused file of another version of this library, and reports it as
/// not_found. world/file_use.h decides whether the content is still valid.
Expected<OpenedFile> open_world_file(const RuntimeDirectory& directory, const std::string& name, FileKind kind);

/// Does the same, but does not retire the file, and reports a file of another version of this library as corrupt. Opens
/// a process table only for reading.
Expected<OpenedFile> look_at_world_file(const RuntimeDirectory& directory, const std::string& name, FileKind kind);

struct NewFile {
  FileKind kind;
  std::uint64_t size;
  std::uint32_t persist;  // a Persist
  std::uint32_t mode;     // exact permission bits, whatever the umask
  WorldId world{};        // for a dictionary; a process table gets a new one
  /// This function, which may be empty, is called with the inode before the file gets its name, by one process at a
  /// time. If the function fails, the file does not get a name.
  std::function<Status(std::uint64_t inode)> before_naming{};
  std::uint64_t hole = 0;      // bytes at the end that are not reserved
  std::uint64_t optional = 0;  // the last bytes of the hole, for which there need not be space now
};

/// Creates the file. Fills in the FileHeader, after which everything is zero, runs `initialise` on the mapping, and
/// then gives the file its name. Fails with exists if another process was first (open that file instead), or with
/// no_memory (the message says how much is free). A dictionary's mapping also marks it as in use (world/file_use.h).
Expected<platform::Mapping> create_world_file(const RuntimeDirectory& directory, const std::string& name,
                                              const NewFile& file,
                                              const std::function<void(std::byte* base)>& initialise);

/// Maps the whole file, shared and writable, or read-only.
enum class Access { change, look };
Expected<platform::Mapping> map_world_file(const OpenedFile& file, Access access = Access::change);

/// Marks the file as retired, then unlinks it. A file that cannot be opened for marking keeps its name. Fails with
/// not_found if there is no such file. If two processes retire the same name at the same time, they cannot remove the
/// file that a third process makes in between.
Status retire_world_file(const RuntimeDirectory& directory, const std::string& name);

/// Does the same for an opened file, if the name still leads to it. Afterwards, the name leads to another file or to
/// none.
Status retire_opened_file(const RuntimeDirectory& directory, const std::string& name, const OpenedFile& file,
                          std::uint64_t timeout_ns = DirectoryLock::kTimeoutNs);

/// Returns whether `name` still leads to the file `id`, which takes one or two system calls.
bool is_current_file(const RuntimeDirectory& directory, const std::string& name, const platform::FileId& id);

/// How to make a file that has no name yet. `unnamed` needs O_TMPFILE and /proc; `temporary_name` works on systems
/// without them. create_world_file() chooses between the two, except in tests.
enum class Birth { automatic, unnamed, temporary_name };
Expected<platform::Mapping> create_world_file_by(Birth birth, const RuntimeDirectory& directory,
                                                 const std::string& name, const NewFile& file,
                                                 const std::function<void(std::byte* base)>& initialise);

}  // namespace holdfast
