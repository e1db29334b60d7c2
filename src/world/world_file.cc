#include "world/world_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/failpoint.h"
#include "world/backoff.h"
#include "world/kept_file.h"
#include "world/name_use.h"
#include "world/runtime_directory.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;
using platform::FileId;

constexpr const char* kWayOut =
    "; stop the processes that use it and remove it (for a dictionary: holdfast rm --force), or choose another "
    "HOLDFAST_DIR";
constexpr int kOpenFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

std::string_view kind_name(FileKind kind) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"of an unknown kind", "a process table", "a dictionary",
                                                   "a file of names in use"};
  const auto index = static_cast<std::uint32_t>(kind);
  return kNames[index < kNames.size() ? index : 0];
}

// --- checking --------------------------------------------------------------------------------------------

// Checks the inode before any byte of the file is read.
Status judge_inode(const RuntimeDirectory& directory, const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return {Code::permission, path + " is not a regular file"};
  if (info.st_nlink > 1) {
    return {Code::permission,
            path + " has " + std::to_string(info.st_nlink) + " names (hard links), expected 1; remove the others"};
  }
  if (directory.sharing() == RuntimeDirectory::Sharing::group) {
    if (info.st_gid != directory.group()) {
      return {Code::permission, path + " belongs to group " + std::to_string(info.st_gid) + ", expected " +
                                    std::to_string(directory.group())};
    }
  } else if (info.st_uid != ::geteuid()) {
    return {Code::permission,
            path + " is owned by uid " + std::to_string(info.st_uid) + ", expected " + std::to_string(::geteuid())};
  }
  return {};
}

Status read_header_page(const std::string& path, int fd, HeaderPage& page) {
  std::size_t have = 0;
  while (have < page.size()) {
    const ssize_t got = platform::uninterrupted(
        [&] { return ::pread(fd, page.data() + have, page.size() - have, static_cast<off_t>(have)); });
    if (got < 0) return {Code::system, "cannot read " + path + ": " + platform::error_text(errno)};
    if (got == 0) {
      return {Code::corrupt, path + " is not a holdfast file, or was cut short: it has " + std::to_string(have) +
                                 " bytes, but its header alone needs " + std::to_string(page.size()) + kWayOut};
    }
    have += static_cast<std::size_t>(got);
  }
  return {};
}

// Returns whether a dictionary that no process uses may be replaced.
bool gives_way(const FileHeader& header) noexcept { return header.persist == kTemporary || header.persist == kKept; }

Status judge_header(const std::string& path, const FileHeader& header, FileKind kind, const struct stat& info) {
  if (header.magic != kMagic) {
    return {Code::corrupt, path +
                               " is not a holdfast file (bad magic); remove it if nothing uses it (for a dictionary: "
                               "holdfast rm --force), "
                               "or choose another HOLDFAST_DIR"};
  }
  if (header.layout != kLayoutVersion) {
    return {Code::corrupt, path + " has layout version " + std::to_string(header.layout) + ", but this library uses " +
                               std::to_string(kLayoutVersion) +
                               (kind == FileKind::dictionary && !gives_way(header)
                                    ? kWayOut
                                    : "; stop the processes that use it, or choose another HOLDFAST_DIR")};
  }
  if (header.kind != kind) {
    return {Code::corrupt,
            path + " is " + std::string(kind_name(header.kind)) + ", expected " + std::string(kind_name(kind))};
  }
  if (header.size != static_cast<std::uint64_t>(info.st_size)) {
    return {Code::corrupt, path + " has " + std::to_string(info.st_size) + " bytes, but was created with " +
                               std::to_string(header.size) + kWayOut};
  }
  if (const std::uint32_t mode = info.st_mode & 07777; (mode & ~header.mode) != 0) {
    return {Code::permission, path + " has mode " + octal(mode) + ", but it was created with " + octal(header.mode)};
  }
  return {};
}

// Returns whether another version of this library has left this file behind. Only a person may decide about a
// persistent dictionary. Any other dictionary has no users, because they would have the process table of their version,
// which is checked first.
bool left_by_another_version(const RuntimeDirectory& directory, const std::string& name, const OpenedFile& file,
                             FileKind kind) {
  const FileHeader& header = file.header();
  const bool may_go = header.magic == kMagic && header.layout != kLayoutVersion && header.kind == kind &&
                      (kind == FileKind::processes || gives_way(header));
  if (!may_go || platform::has_record_locks(file.fd.get())) return false;
  return kind == FileKind::processes ? !is_anything_kept(directory)
                                     : !is_use_kept(directory, name_byte(name, file.id.inode));
}

// --- removing --------------------------------------------------------------------------------------------

// Marks the file as retired, for the users that have mapped it. Writes only to a file of this library that is long
// enough. Sets `told` if the users see the mark. If a part of the file is lost, they do not need a mark, because an
// access to that part faults. Returns 0, or an errno value if the users do not learn that the file is retired.
int mark_retired(int fd, Retired reason, bool& told) {
  told = false;
  struct stat info;
  std::array<char, 8> magic{};
  if (::fstat(fd, &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return 0;
  if (info.st_size < static_cast<off_t>(kHeaderBytes)) {
    told = true;
    return 0;
  }
  if (platform::uninterrupted([&] { return ::pread(fd, magic.data(), magic.size(), 0); }) < 0) return errno;
  if (magic != kMagic) return 0;
  const platform::Mapping page = platform::map_shared(fd, kHeaderBytes);
  if (!page) return errno;
  // Release: pairs with the acquire load of a user that then searches for a successor. Sequentially consistent: pairs
  // with the barrier of Segment::was_removed_before_commit(), so that everything that a later dictionary does comes
  // after the mark. The first reason stays.
  std::uint32_t not_yet = 0;
  reinterpret_cast<FileHeader*>(page.data())
      ->retired.compare_exchange_strong(not_yet, reason, std::memory_order_seq_cst, std::memory_order_relaxed);
  told = true;
  return 0;
}

Status cannot_remove(const RuntimeDirectory& directory, const std::string& name, int error) {
  return {error == EACCES || error == EPERM ? Code::permission : Code::system,
          "cannot remove " + directory.path_of(name) + ": " + platform::error_text(error)};
}

// Checks whether the kernel will let this process remove the file's name. Returns 0 or an errno value.
int check_unlink(int directory_fd, const struct stat& file) noexcept {
  if (::faccessat(directory_fd, ".", W_OK | X_OK, AT_EACCESS) != 0) return errno;
  struct stat directory;
  if (::fstat(directory_fd, &directory) != 0) return errno;
  const uid_t self = ::geteuid();
  const bool is_sticky = (directory.st_mode & S_ISVTX) != 0;
  return is_sticky && self != 0 && self != file.st_uid && self != directory.st_uid ? EPERM : 0;
}

// Removes the name if it still leads to `id`, or wherever it leads if `id` is null.
Status remove_name(const RuntimeDirectory& directory, const std::string& name, const FileId* id, Retired reason,
                   std::uint64_t timeout_ns) {
  auto directory_fd = directory.open();
  if (!directory_fd) return directory_fd.status();
  auto lock = DirectoryLock::acquire(directory_fd->get(), directory.path(), timeout_ns);
  if (!lock) return lock.status();

  struct stat info;
  const bool known = ::fstatat(directory_fd->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!known && errno != ENOENT) return cannot_remove(directory, name, errno);
  if (!known || (id != nullptr && id_of(info) != *id)) {
    return {Code::not_found, "there is no " + directory.path_of(name)};
  }
  // Check this before the file is marked, because a dictionary that keeps its name must stay usable.
  if (const int error = check_unlink(directory_fd->get(), info); error != 0)
    return cannot_remove(directory, name, error);
  // If the file cannot be marked, it keeps its name, because with two files under one name, each with users, a lock
  // could have two holders.
  auto note = RemovedNote::prepare(directory, name);
  if (!note) return note.status();
  HOLDFAST_FAILPOINT("remove.prepared");
  if (S_ISREG(info.st_mode)) {
    bool told = false;
    const FileDescriptor fd(::openat(directory_fd->get(), name.c_str(), O_RDWR | kOpenFlags));
    if (const int error = fd ? mark_retired(fd.get(), reason, told) : errno; error != 0)
      return cannot_remove(directory, name, error);
    if (told) note->write(info.st_ino);
  }
  HOLDFAST_FAILPOINT("remove.retired");
  if (::unlinkat(directory_fd->get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return cannot_remove(directory, name, errno);
  return {};
}

Status explain_open_failure(const std::string& path, int error, int directory_fd, const std::string& name) {
  if (error == ENOENT) return {Code::not_found, "there is no " + path};
  if (error == ELOOP) return {Code::permission, path + " is a symbolic link"};
  struct stat info;
  const bool there = ::fstatat(directory_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && !S_ISREG(info.st_mode)) return {Code::permission, path + " is not a regular file"};
  if (there && error == EACCES) {
    return {Code::permission, path + " is owned by uid " + std::to_string(info.st_uid) + " with mode " +
                                  octal(info.st_mode) + ", but this process runs as uid " +
                                  std::to_string(::geteuid())};
  }
  return {error == EACCES || error == EPERM ? Code::permission : Code::system,
          "cannot open " + path + ": " + platform::error_text(error)};
}

Status there_is_no(const RuntimeDirectory& directory, const std::string& name) {
  return {Code::not_found, "there is no " + directory.path_of(name)};
}

// Opens the file and reads its header without checking it.
Expected<OpenedFile> read_world_file(const RuntimeDirectory& directory, const std::string& name, int access,
                                     struct stat& info) {
  auto directory_fd = directory.open();
  if (!directory_fd) return directory_fd.status();
  const std::string path = directory.path_of(name);

  OpenedFile file{.fd = {}, .id = {}, .page = std::make_unique<HeaderPage>()};
  file.fd = FileDescriptor(::openat(directory_fd->get(), name.c_str(), access | kOpenFlags));
  if (!file.fd) return explain_open_failure(path, errno, directory_fd->get(), name);
  if (::fstat(file.fd.get(), &info) != 0)
    return Status{Code::system, "cannot stat " + path + ": " + platform::error_text(errno)};
  if (info.st_nlink == 0) return there_is_no(directory, name);  // the file was retired after it was opened
  if (Status inode = judge_inode(directory, path, info); !inode.ok()) return inode;
  if (Status read = read_header_page(path, file.fd.get(), *file.page); !read.ok()) return read;
  file.id = id_of(info);
  return file;
}

}  // namespace

std::string hexadecimal(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t at = text.size(); at-- > 0; number >>= 4) text[at] = kDigits[number & 15];
  return text;
}

std::string temporary_name() { return std::string(kTemporaryPrefix) + hexadecimal(platform::random_number()); }

Expected<DirectoryLock> DirectoryLock::acquire(int directory_fd, const std::string& path, std::uint64_t timeout_ns) {
  const std::uint64_t deadline = platform::monotonic_ns() + timeout_ns;
  for (Backoff backoff;;) {
    int error = 0;
    {
      // The guard is in the object, so that no fork happens between taking the lock and recording it, and forks do not
      // wait during the pause below.
      DirectoryLock lock(directory_fd);
      error = platform::try_lock_description(directory_fd);
      if (error == 0) return Expected<DirectoryLock>(std::move(lock));
      lock.fd_ = -1;
    }
    if (error != EWOULDBLOCK) {
      return Status{Code::system, "cannot lock directory " + path + ": " + platform::error_text(error)};
    }
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= deadline) {
      return Status{Code::busy, "directory " + path + " has been locked by another process for " +
                                    std::to_string(timeout_ns / kNsPerSecond) + " s; is that process stopped?"};
    }
    platform::sleep_until(std::min(now + backoff.next_ns(), deadline));
  }
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) platform::unlock_description(fd_);
}

Expected<OpenedFile> open_world_file(const RuntimeDirectory& directory, const std::string& name, FileKind kind) {
  struct stat info;
  auto file = read_world_file(directory, name, O_RDWR, info);
  if (!file) return file;
  const FileHeader& header = file->header();
  const bool left = left_by_another_version(directory, name, *file, kind);
  if (!left) {
    if (Status good = judge_header(directory.path_of(name), header, kind, info); !good.ok()) return good;
    if (header.retired.load(std::memory_order_relaxed) == 0) return file;
    // The file is retired but still has its name, because a process died while removing it.
  }
  Status removed = retire_opened_file(directory, name, *file);
  return removed.ok() ? there_is_no(directory, name) : removed;
}

Expected<OpenedFile> look_at_world_file(const RuntimeDirectory& directory, const std::string& name, FileKind kind) {
  struct stat info;
  auto file = read_world_file(directory, name, kind == FileKind::processes ? O_RDONLY : O_RDWR, info);
  if (!file) return file;
  if (Status good = judge_header(directory.path_of(name), file->header(), kind, info); !good.ok()) return good;
  if (file->header().retired.load(std::memory_order_relaxed) != 0) return there_is_no(directory, name);
  return file;
}

Status retire_opened_file(const RuntimeDirectory& directory, const std::string& name, const OpenedFile& file,
                          std::uint64_t timeout_ns) {
  Status removed = remove_name(directory, name, &file.id, kRetiredWithWorld, timeout_ns);
  return removed.code == Code::not_found ? Status{} : removed;
}

Expected<platform::Mapping> map_world_file(const OpenedFile& file, Access access) {
  const auto map = access == Access::look ? &platform::map_to_look : &platform::map_shared;
  platform::Mapping mapping = map(file.fd.get(), file.header().size, loss_mark(file.header().kind));
  if (!mapping) {
    const int error = errno;
    return Status{error == ENOMEM ? Code::no_memory : Code::system,
                  "cannot map " + std::to_string(file.header().size) + " bytes: " + platform::error_text(error)};
  }
  return mapping;
}

Status retire_world_file(const RuntimeDirectory& directory, const std::string& name) {
  return remove_name(directory, name, nullptr, kRetiredByName, DirectoryLock::kTimeoutNs);
}

bool is_current_file(const RuntimeDirectory& directory, const std::string& name, const FileId& id) {
  struct stat info;
  return ::lstat(directory.path_of(name).c_str(), &info) == 0 && id_of(info) == id;
}

}  // namespace holdfast
