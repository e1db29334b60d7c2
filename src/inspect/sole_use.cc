#include "inspect/sole_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "inspect/files.h"
#include "world/file_use.h"
#include "world/kept_file.h"
#include "world/name_use.h"

namespace holdfast::inspect {

namespace {

constexpr int kLooks = 20;
constexpr useconds_t kPauseMicroseconds = 1000;

struct flock lock_of(std::uint64_t byte) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

bool lock(int fd) noexcept {
  struct flock all = lock_of(kUseLock);
  return ::fcntl(fd, F_OFD_SETLK, &all) == 0;
}

/// Whether a program uses it over exec (world/kept_file.h). What cannot be told counts as use.
bool is_kept(const std::string& directory, const WorldFile& file) {
  const std::string prefix = use_file_prefix(name_byte(file.name, file.inode));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  if (stream == nullptr) return true;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    const Descriptor fd(::open((directory + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct flock found = lock_of(0);
    if (fd.get() < 0 && errno == ENOENT) continue;
    if (fd.get() < 0 || ::fcntl(fd.get(), F_OFD_GETLK, &found) != 0 || found.l_type != F_UNLCK) return true;
  }
  return false;
}

/// Whether the name still leads to the opened file: another may have replaced it.
bool has_name(int fd, const std::string& path) noexcept {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

bool SoleUse::still_has_name() const noexcept { return held.get() >= 0 && has_name(held.get(), path); }

SoleUse take_sole_use(const std::string& directory, const std::string& dictionary) {
  SoleUse use;
  for (int look = 0; look < kLooks; ++look) {
    const WorldFile file = read_dictionary_file(directory, dictionary, Read::status);
    const std::string path = directory + "/" + file.name;
    if (!file.trouble.empty()) return {};  // there is none
    if (!file.is_regular) return {.trouble = path + " is not a regular file"};
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (fd.get() < 0 && errno == ENOENT) continue;
    if (fd.get() < 0) return {.trouble = "cannot open " + path + ": " + std::strerror(errno)};
    const bool is_locked = lock(fd.get());
    if (!is_locked && errno != EAGAIN && errno != EACCES)
      return {.trouble = "cannot lock " + path + ": " + std::strerror(errno)};
    use.is_used = !is_locked || is_kept(directory, file);
    if (!use.is_used && has_name(fd.get(), path)) return {.held = std::move(fd), .path = path};
    fd.reset();
    ::usleep(kPauseMicroseconds);
  }
  if (!use.is_used) use.trouble = "it is removed and made anew all the time";
  return use;
}

}  // namespace holdfast::inspect
