#include "world/runtime_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

namespace holdfast {

namespace {

constexpr mode_t kPrivateMode = 0700;
constexpr mode_t kGroupMode = 0770;
constexpr std::uint32_t kTmpfsMagic = 0x01021994;

Status refuse(const std::string& path, const std::string& why) {
  return {Code::permission, "runtime directory " + path + " " + why};
}

std::string octal(mode_t mode) {
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

// Root may write to any group's files anyway.
bool is_our_group(gid_t group) {
  if (::geteuid() == 0 || ::getegid() == group) return true;
  const int count = ::getgroups(0, nullptr);
  if (count <= 0) return false;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  const int got = ::getgroups(count, groups.data());
  return got > 0 && std::find(groups.begin(), groups.begin() + got, group) != groups.begin() + got;
}

// O_NOFOLLOW judges only the last component: "link/" and "link/." would be followed.
std::string without_tail(std::string path) {
  for (;;) {
    if (!(path.size() > 1 && path.ends_with('/')) && !path.ends_with("/.")) return path;
    path.pop_back();
  }
}

Expected<std::string> absolute(const std::string& path) {
  if (path.starts_with('/')) return without_tail(path);
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (error) return refuse(path, "is a relative path, and the current directory is not to be had: " + error.message());
  return without_tail((here / path).string());
}

Status explain_open_failure(const std::string& path, int error) {
  struct stat info;
  const bool there = ::lstat(path.c_str(), &info) == 0;
  if (there && S_ISLNK(info.st_mode)) return refuse(path, "is a symbolic link; name the directory itself");
  if (there && !S_ISDIR(info.st_mode)) return refuse(path, "is not a directory");
  if (there && error == EACCES) {
    return refuse(path, "cannot be opened: owned by uid " + std::to_string(info.st_uid) + " with mode " +
                            octal(info.st_mode) + ", this process runs as uid " + std::to_string(::geteuid()));
  }
  if (error == ENOENT) {
    return refuse(path,
                  "cannot be created: its parent directory does not exist (a new one is made only one level deep)");
  }
  return {error == EACCES ? Code::permission : Code::system,
          "runtime directory " + path + " cannot be opened: " + platform::error_text(error)};
}

// What was opened before setuid() is of no use after it: to enter a world, each process opens its directory.
Status explain_changed_user(const std::string& path, uid_t before) {
  return refuse(path, "was chosen when this process ran as uid " + std::to_string(before) + ", and is closed to uid " +
                          std::to_string(::geteuid()) +
                          " as which it runs now; open dictionaries only then (in nginx: in init_worker_by_lua, not in "
                          "init_by_lua), or set HOLDFAST_DIR and HOLDFAST_SHARE=group for a directory of both users");
}

// Whatever the umask is, the result has mode 0700. Only the process that made it touches the mode.
int create_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kPrivateMode) != 0) return errno == EEXIST ? 0 : errno;
  return ::chmod(path.c_str(), kPrivateMode) == 0 ? 0 : errno;
}

Status judge_owner(const std::string& path, const struct stat& info, RuntimeDirectory::Sharing sharing) {
  const mode_t mode = info.st_mode & 07777;
  if (sharing == RuntimeDirectory::Sharing::group) {
    if (!is_our_group(info.st_gid)) {
      return refuse(path, "belongs to group " + std::to_string(info.st_gid) +
                              ", which is none of this process's groups (HOLDFAST_SHARE=group)");
    }
    if ((mode & 0777 & ~kGroupMode) != 0) {
      return refuse(path, "has mode " + octal(mode) + "; with HOLDFAST_SHARE=group at most 0770 is accepted");
    }
    return {};
  }
  if (info.st_uid != ::geteuid()) {
    return refuse(path, "is owned by uid " + std::to_string(info.st_uid) + ", expected " + std::to_string(::geteuid()) +
                            " (to share one between users, set HOLDFAST_SHARE=group)");
  }
  if ((mode & 0777 & ~kPrivateMode) != 0) {
    return refuse(path, "has mode " + octal(mode) + ", expected 0700: others must not get in");
  }
  return {};
}

Status judge_file_system(const std::string& path, int fd) {
  struct statfs info;
  if (::fstatfs(fd, &info) != 0) return {Code::system, "statfs of " + path + ": " + platform::error_text(errno)};
  if (static_cast<std::uint32_t>(info.f_type) == kTmpfsMagic) return {};
  std::array<char, 16> type;
  std::snprintf(type.data(), type.size(), "0x%x", static_cast<unsigned>(info.f_type));
  return {Code::invalid, "runtime directory " + path + " is not on tmpfs (file system type " + type.data() +
                             "); choose one under /dev/shm"};
}

}  // namespace

Expected<RuntimeDirectory> RuntimeDirectory::from_environment() {
  // secure_getenv: who runs a set-uid program must not choose where it keeps its locks.
  const char* const share = ::secure_getenv("HOLDFAST_SHARE");
  Sharing sharing = Sharing::none;
  if (share != nullptr && *share != '\0') {
    if (std::string_view(share) != "group") {
      return Status{Code::invalid, "HOLDFAST_SHARE is \"" + std::string(share) + "\"; accepted: \"group\", or unset"};
    }
    sharing = Sharing::group;
  }
  const char* const chosen = ::secure_getenv("HOLDFAST_DIR");
  if (chosen != nullptr && *chosen != '\0') return at(chosen, sharing);
  return at("/dev/shm/holdfast-" + std::to_string(::geteuid()), sharing);
}

Expected<RuntimeDirectory> RuntimeDirectory::at(const std::string& path, Sharing sharing) {
  auto whole = absolute(path);
  if (!whole) return whole.status();
  RuntimeDirectory directory;
  directory.path_ = std::move(*whole);
  directory.sharing_ = sharing;
  directory.user_ = ::geteuid();
  auto opened = directory.open();
  if (!opened && ::access(directory.path_.c_str(), F_OK) != 0 && errno == ENOENT) {
    if (const int error = create_directory(directory.path_); error != 0 && error != ENOENT) {
      return Status{error == EACCES ? Code::permission : Code::system,
                    "runtime directory " + directory.path_ + " cannot be created: " + platform::error_text(error)};
    }
    opened = directory.open();
    if (!opened) ::rmdir(directory.path_.c_str());  // not a place for it, and it is of no use there
  }
  if (!opened) return opened.status();
  struct stat info;
  if (::fstat(opened->get(), &info) != 0) {
    return Status{Code::system, "stat of " + directory.path_ + ": " + platform::error_text(errno)};
  }
  directory.id_ = {.device = info.st_dev, .inode = info.st_ino};
  directory.group_ = info.st_gid;
  return directory;
}

Expected<platform::FileDescriptor> RuntimeDirectory::open() const {
  if (path_.empty()) return Status{Code::invalid, "no runtime directory was chosen"};
  platform::FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    return error == EACCES && ::geteuid() != user_ ? explain_changed_user(path_, user_)
                                                   : explain_open_failure(path_, error);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) {
    return Status{Code::system, "stat of " + path_ + ": " + platform::error_text(errno)};
  }
  if (Status owner = judge_owner(path_, info, sharing_); !owner.ok()) {
    return ::geteuid() != user_ ? explain_changed_user(path_, user_) : owner;
  }
  if (Status system = judge_file_system(path_, fd.get()); !system.ok()) return system;

  const platform::FileId now{.device = info.st_dev, .inode = info.st_ino};
  if (id_ != platform::FileId{} && id_ != now) {
    return Status{Code::system, "runtime directory " + path_ +
                                    " was removed and made again while this process used it; restart the process"};
  }
  if (!anchor_name_.empty() && (::fstatat(fd.get(), anchor_name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
                                platform::FileId{.device = info.st_dev, .inode = info.st_ino} != anchor_id_)) {
    return Status{Code::system,
                  path_of(anchor_name_) + " was removed or replaced while this process used it; restart the process"};
  }
  return fd;
}

void RuntimeDirectory::anchor(std::string name, platform::FileId id) {
  anchor_name_ = std::move(name);
  anchor_id_ = id;
}

}  // namespace holdfast
