// Creates a file: reserves space, initialises the file, and only then gives the file its name.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <optional>
#include <utility>

#include "base/failpoint.h"
#include "world/boot.h"
#include "world/file_use.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;
using platform::Mapping;

#ifndef RENAME_NOREPLACE
constexpr unsigned RENAME_NOREPLACE = 1;
#endif

// A file without its final name. The destructor removes the temporary name, if there is one, unless the file was
// published.
class Unborn {
 public:
  static Unborn unnamed(int directory_fd) {
    Unborn file(directory_fd);
    file.fd_ = FileDescriptor(::openat(directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    return file;
  }

  static Unborn with_temporary_name(int directory_fd) {
    Unborn file(directory_fd);
    std::string name = temporary_name();
    file.fd_ =
        FileDescriptor(::openat(directory_fd, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd_) file.temporary_name_ = std::move(name);
    return file;
  }

  Unborn(Unborn&& other) noexcept
      : directory_fd_(other.directory_fd_),
        fd_(std::move(other.fd_)),
        temporary_name_(std::exchange(other.temporary_name_, std::string())) {}
  ~Unborn() {
    if (!temporary_name_.empty()) ::unlinkat(directory_fd_, temporary_name_.c_str(), 0);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }

  // Gives the file its name. Returns EEXIST if the name is taken; never replaces a file.
  int publish(const std::string& name) {
    if (temporary_name_.empty()) {
      char source[32];
      std::snprintf(source, sizeof source, "/proc/self/fd/%d", fd_.get());
      return ::linkat(AT_FDCWD, source, directory_fd_, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (::syscall(SYS_renameat2, directory_fd_, temporary_name_.c_str(), directory_fd_, name.c_str(),
                  RENAME_NOREPLACE) != 0) {
      return errno;
    }
    temporary_name_.clear();
    return 0;
  }

 private:
  explicit Unborn(int directory_fd) noexcept : directory_fd_(directory_fd) {}

  int directory_fd_;
  FileDescriptor fd_;
  std::string temporary_name_;
};

Status no_room(const RuntimeDirectory& directory, const std::string& name, std::uint64_t size, std::uint64_t free) {
  return {Code::no_memory, "cannot create " + directory.path_of(name) + ": it needs " + std::to_string(size) +
                               " bytes, but only " + std::to_string(free) + " bytes are free in " + directory.path()};
}

// Refuses a file that is too large before anything is allocated, because a full /dev/shm harms every process, and a
// process over its file size limit would get SIGXFSZ.
Status check_room(const RuntimeDirectory& directory, const std::string& name, const NewFile& file, int directory_fd) {
  const std::uint64_t size = file.size;
  if (const std::uint64_t limit = platform::file_size_limit(); size > limit) {
    return {Code::no_memory, "cannot create " + directory.path_of(name) + ": it needs " + std::to_string(size) +
                                 " bytes, but this process may create files of at most " + std::to_string(limit) +
                                 " bytes (ulimit -f); raise the limit, or choose a smaller size"};
  }
  if (const std::uint64_t free = platform::free_bytes(directory_fd); size - file.optional > free) {
    return no_room(directory, name, size - file.optional, free);
  }
  return {};
}

// Sets the exact mode, whatever the umask. With sharing, the directory's group may read and write.
Status set_access(const RuntimeDirectory& directory, const std::string& name, int fd, std::uint32_t mode) {
  if (directory.sharing() == RuntimeDirectory::Sharing::group &&
      ::fchown(fd, static_cast<uid_t>(-1), directory.group()) != 0) {
    return {Code::permission, "cannot change the group of " + directory.path_of(name) + " to " +
                                  std::to_string(directory.group()) + ": " + platform::error_text(errno)};
  }
  if (::fchmod(fd, mode) != 0) {
    return {Code::system, "cannot set the mode of " + directory.path_of(name) + ": " + platform::error_text(errno)};
  }
  return {};
}

WorldId new_world_id() { return {.high = platform::random_number(), .low = platform::random_number()}; }

void write_header(std::byte* base, const NewFile& file, std::uint32_t mode, ino_t inode) {
  auto* const header = new (base) FileHeader{};
  header->magic = kMagic;
  header->layout = kLayoutVersion;
  header->kind = file.kind;
  header->size = file.size;
  header->persist = file.persist;
  header->boot = this_boot().id;
  header->time_namespace = this_boot().time_namespace;
  header->mode = mode;
  header->inode = inode;
  header->world = file.kind == FileKind::processes ? new_world_id() : file.world;
}

// Makes a complete file that has no name yet, for both kinds of Birth.
Expected<Mapping> fill(const RuntimeDirectory& directory, const std::string& name, const NewFile& file, int fd,
                       const std::function<void(std::byte*)>& initialise) {
  const std::uint32_t mode =
      file.mode | (directory.sharing() == RuntimeDirectory::Sharing::group ? std::uint32_t{0060} : 0);
  if (Status access = set_access(directory, name, fd, mode); !access.ok()) return access;
  const std::uint64_t reserved = file.size - file.hole;
  if (const int error = platform::reserve(fd, reserved, file.size); error != 0) {
    if (error == ENOSPC || error == ENOMEM) return no_room(directory, name, reserved, platform::free_bytes(fd));
    return Status{Code::system, "cannot reserve " + std::to_string(reserved) + " bytes for " + directory.path_of(name) +
                                    ": " + platform::error_text(error)};
  }
  // Lock the file before it is mapped, so that the mapping keeps the lock.
  if (const int error = file.kind == FileKind::dictionary ? platform::try_shared_record_lock(fd, kUseLock) : 0) {
    return Status{Code::system,
                  "cannot lock the new file " + directory.path_of(name) + ": " + platform::error_text(error)};
  }
  Mapping mapping = platform::map_shared(fd, file.size, loss_mark(file.kind));
  if (!mapping) {
    return Status{errno == ENOMEM ? Code::no_memory : Code::system, "cannot map " + std::to_string(file.size) +
                                                                        " bytes of " + directory.path_of(name) + ": " +
                                                                        platform::error_text(errno)};
  }
  write_header(mapping.data(), file, mode, mapping.file().inode);
  initialise(mapping.data());
  return mapping;
}

}  // namespace

Expected<Mapping> create_world_file_by(Birth birth, const RuntimeDirectory& directory, const std::string& name,
                                       const NewFile& file, const std::function<void(std::byte*)>& initialise) {
  auto directory_fd = directory.open();
  if (!directory_fd) return directory_fd.status();
  if (Status room = check_room(directory, name, file, directory_fd->get()); !room.ok()) return room;

  Unborn unborn = birth == Birth::temporary_name ? Unborn::with_temporary_name(directory_fd->get())
                                                 : Unborn::unnamed(directory_fd->get());
  if (!unborn) {
    const int error = errno;
    const bool unsupported = error == EOPNOTSUPP || error == EISDIR || error == ENOENT || error == EINVAL;
    if (birth == Birth::automatic && unsupported) {
      return create_world_file_by(Birth::temporary_name, directory, name, file, initialise);
    }
    return Status{error == EACCES ? Code::permission : Code::system,
                  "cannot create a file in " + directory.path() + ": " + platform::error_text(error)};
  }
  auto mapping = fill(directory, name, file, unborn.fd(), initialise);
  if (!mapping) return mapping;

  HOLDFAST_FAILPOINT("new_file.publish");
  std::optional<DirectoryLock> alone;
  if (file.before_naming) {
    // Only one process at a time may do this: the lock that is taken before the file gets its name must not look like
    // the use of a file that has lost its name.
    auto lock = DirectoryLock::acquire(directory_fd->get(), directory.path());
    if (!lock) return lock.status();
    alone.emplace(std::move(*lock));
    struct stat taken;
    if (::fstatat(directory_fd->get(), name.c_str(), &taken, AT_SYMLINK_NOFOLLOW) == 0)
      return Status{Code::exists, directory.path_of(name) + " exists"};
    if (Status ready = file.before_naming(mapping->file().inode); !ready.ok()) return ready;
  }
  const int error = unborn.publish(name);
  alone.reset();
  if (error == 0) return mapping;
  if (error == EEXIST) return Status{Code::exists, directory.path_of(name) + " exists"};
  if (birth == Birth::automatic) {  // an unnamed file cannot get a name without /proc
    return create_world_file_by(Birth::temporary_name, directory, name, file, initialise);
  }
  return Status{Code::system, "cannot create " + directory.path_of(name) + ": " + platform::error_text(error)};
}

Expected<Mapping> create_world_file(const RuntimeDirectory& directory, const std::string& name, const NewFile& file,
                                    const std::function<void(std::byte*)>& initialise) {
  return create_world_file_by(Birth::automatic, directory, name, file, initialise);
}

}  // namespace holdfast
