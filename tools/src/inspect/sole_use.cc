#include "inspect/sole_use.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "inspect/files.h"
#include "world/file_use.h"

namespace holdfast::inspect {

namespace {

constexpr int kLooks = 20;
constexpr useconds_t kPauseMicroseconds = 1000;

bool lock(int fd) noexcept {
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  all.l_start = static_cast<off_t>(kUseLock);
  all.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &all) == 0;
}

/// Returns whether the path still leads to the opened file. Another file may have replaced it.
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
    if (!file.trouble.empty()) return {};  // the file does not exist
    if (!file.is_regular) return {.trouble = path + " is not a regular file"};
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (fd.get() < 0 && errno == ENOENT) continue;
    if (fd.get() < 0) return {.trouble = "cannot open " + path + ": " + std::strerror(errno)};
    const bool is_locked = lock(fd.get());
    if (!is_locked && errno != EAGAIN && errno != EACCES)
      return {.trouble = "cannot lock " + path + ": " + std::strerror(errno)};
    use.is_used = !is_locked || is_use_kept(directory, file);
    if (!use.is_used && has_name(fd.get(), path)) return {.held = std::move(fd), .path = path};
    fd.reset();
    ::usleep(kPauseMicroseconds);
  }
  if (!use.is_used) use.trouble = "it keeps being removed and created again";
  return use;
}

}  // namespace holdfast::inspect
