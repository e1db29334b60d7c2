#include "world/runtime_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "world/kept_file.h"
#include "world/name_file.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

constexpr mode_t kPrivateMode = 0700;
constexpr mode_t kGroupMode = 0770;
constexpr std::uint32_t kTmpfsMagic = 0x01021994;

Status refuse(const std::string& path, const std::string& why) {
  return {Code::permission, "runtime directory " + path + " " + why};
}

// Returns whether this process may use the group. Root need not be a member, because it trusts the directory's owner,
// who has chosen the group.
bool is_our_group(gid_t group) {
  if (::geteuid() == 0 || ::getegid() == group) return true;
  const int count = ::getgroups(0, nullptr);
  if (count <= 0) return false;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  const int got = ::getgroups(count, groups.data());
  return got > 0 && std::find(groups.begin(), groups.begin() + got, group) != groups.begin() + got;
}

// Removes "/" and "/." at the end. O_NOFOLLOW checks only the last component, so "link/" and "link/." would be
// followed.
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
  if (error) return refuse(path, "is a relative path, and the current directory cannot be read: " + error.message());
  return without_tail((here / path).string());
}

bool is_tmpfs(const struct statfs& info) { return static_cast<std::uint32_t>(info.f_type) == kTmpfsMagic; }

Status judge_file_system(const std::string& path, int fd) {
  struct statfs info;
  if (::fstatfs(fd, &info) != 0)
    return {Code::system, "cannot read the file system type of " + path + ": " + platform::error_text(errno)};
  if (is_tmpfs(info)) return {};
  std::array<char, 16> type;
  std::snprintf(type.data(), type.size(), "0x%x", static_cast<unsigned>(info.f_type));
  return {Code::invalid, "runtime directory " + path + " is not on tmpfs (file system type " + type.data() +
                             "); choose one under /dev/shm"};
}

// Returns a path that no other user can have taken, if there is one for this user.
std::string place_to_suggest() {
  constexpr const char* kAny = "/dev/shm/ANOTHER_NAME";
  const char* const folder = ::secure_getenv("XDG_RUNTIME_DIR");
  struct stat info;
  struct statfs system;
  if (folder == nullptr || *folder != '/' || ::lstat(folder, &info) != 0 || ::statfs(folder, &system) != 0) {
    return kAny;
  }
  const bool private_to_us =
      S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 0777 & ~kPrivateMode) == 0;
  return private_to_us && is_tmpfs(system) ? without_tail(folder) + "/holdfast" : kAny;
}

// Suggests naming another directory. If the library used another directory by itself, it would split the world, because
// processes of one user may have different environments.
std::string name_another_one() {
  return "choose another one for all programs that share it: export HOLDFAST_DIR=" + place_to_suggest();
}

// Suggests what to do about the directory. Only a directory with the default name is certainly ours. HOLDFAST_DIR may
// name any directory, such as /tmp, which must not be removed. Only the directory's user knows whether programs use it,
// so root must not remove it either.
std::string another_one(const std::string& path) {
  const bool is_default = path == default_directory(::geteuid());
  return (is_default ? "ask that user to remove it, or " : "") + name_another_one();
}

std::string look_as(uid_t user) {
  const std::string id = std::to_string(user);
  return "to use it, run as that user (holdfast lock --user " + id + "; other programs: runuser, setpriv), or " +
         name_another_one();
}

/// Returns whether the directory is meant for a group. Such a directory must not be removed, and its mode must not be
/// changed.
constexpr bool is_of_group(mode_t mode) noexcept { return (mode & 07) == 0 && (mode & 070) != 0; }
constexpr const char* kShareIt = "to share it with its group, set HOLDFAST_SHARE=group in all programs; otherwise ";

Status explain_foreign_owner(const std::string& path, const struct stat& info) {
  const std::string advice = is_of_group(info.st_mode) ? kShareIt + name_another_one()
                             : ::geteuid() == 0        ? look_as(info.st_uid)
                                                       : another_one(path);
  return refuse(path, "is owned by uid " + std::to_string(info.st_uid) + ", expected " + std::to_string(::geteuid()) +
                          "; " + advice);
}

Status explain_open_failure(const std::string& path, int error, RuntimeDirectory::Sharing sharing) {
  struct stat info;
  const bool there = ::lstat(path.c_str(), &info) == 0;
  if (there && S_ISLNK(info.st_mode)) {
    return refuse(path, "is a symbolic link owned by uid " + std::to_string(info.st_uid) + "; " +
                            (info.st_uid == ::geteuid() ? "give the path of the directory itself" : another_one(path)));
  }
  if (there && !S_ISDIR(info.st_mode)) {
    return refuse(path,
                  "is not a directory; it is owned by uid " + std::to_string(info.st_uid) + "; " + another_one(path));
  }
  if (there && error == EACCES) {
    if (sharing == RuntimeDirectory::Sharing::none && info.st_uid != ::geteuid()) {
      return explain_foreign_owner(path, info);
    }
    return refuse(
        path,
        "cannot be opened: it is owned by uid " + std::to_string(info.st_uid) + " with mode " + octal(info.st_mode) +
            ", but this process runs as uid " + std::to_string(::geteuid()) + "; " +
            (is_of_group(info.st_mode) ? "add that user to its group, or " + name_another_one() : another_one(path)));
  }
  return {error == EACCES ? Code::permission : Code::system,
          "runtime directory " + path + " cannot be opened: " + platform::error_text(error)};
}

// Explains that the user has changed. A directory that was opened before setuid() is useless afterwards, because each
// process that enters a world opens the world's directory.
Status explain_changed_user(const std::string& path, uid_t before) {
  return refuse(
      path,
      "was opened by this process as uid " + std::to_string(before) + ", but uid " + std::to_string(::geteuid()) +
          " (its user now) cannot use it; open dictionaries after changing the user (in nginx: in "
          "init_worker_by_lua, not in init_by_lua), or share a directory: set HOLDFAST_DIR and HOLDFAST_SHARE=group");
}

Status explain_creation_failure(const std::string& path, int error) {
  if (error == ENOENT) {
    return refuse(path, "cannot be created: its parent directory does not exist; create the parent first");
  }
  return {error == EACCES ? Code::permission : Code::system,
          "runtime directory " + path + " cannot be created: " + platform::error_text(error)};
}

Status explain_missing_shared_directory(const std::string& path) {
  return {Code::not_found, "there is no runtime directory " + path +
                               ", and HOLDFAST_SHARE=group does not create one; create it first: mkdir -m 0700 " +
                               path + " && chgrp GROUP " + path + " && chmod 0770 " + path};
}

// Sets the mode of a new directory. A umask may have removed bits of the mode, even bits that open() needs. An open
// with O_PATH does not need these bits, and a chmod through the descriptor changes exactly the directory that was
// checked.
Status make_private(const std::string& path, int parent, const std::string& name) {
  const platform::FileDescriptor made(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!made || ::fstat(made.get(), &info) != 0 || info.st_uid != ::geteuid() ||
      (info.st_mode & 07777) == kPrivateMode) {
    return {};  // the directory exists; open() checks it
  }
  const int failed = ::chmod(("/proc/self/fd/" + std::to_string(made.get())).c_str(), kPrivateMode);
  return failed == 0 ? Status{} : explain_creation_failure(path, errno);
}

// Makes the directory, but only where it would be accepted. If another process makes it first, the other process sets
// the mode.
Status create_directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1);
  const platform::FileDescriptor parent(
      ::open(path.substr(0, std::max<std::size_t>(slash, 1)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return explain_creation_failure(path, errno);
  if (Status system = judge_file_system(path, parent.get()); !system.ok()) return system;
  if (::mkdirat(parent.get(), name.c_str(), kPrivateMode) == 0) return make_private(path, parent.get(), name);
  return errno == EEXIST ? Status{} : explain_creation_failure(path, errno);
}

// Returns whether the directory contains only files of a world, so that a message may suggest its mode. HOLDFAST_DIR
// may name any directory.
bool has_only_a_world(const std::string& path) {
  const auto is_of_a_world = [](std::string_view name) {
    return name == "processes" || name.ends_with(kDictionarySuffix) || name.starts_with(kNameFilePrefix) ||
           name.starts_with(kTemporaryPrefix) || is_kept_file(name) || name.starts_with(".agent-") ||
           name.starts_with(".store-");
  };
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (!is_of_a_world(entry->path().filename().native())) return false;
  return !error;
}

Status judge_mode(const std::string& path, mode_t mode, RuntimeDirectory::Sharing sharing) {
  if (sharing == RuntimeDirectory::Sharing::group) {
    // A sticky bit would keep the first process of a new world from removing files of other users.
    if ((mode & (0777 | S_ISVTX) & ~kGroupMode) == 0) return {};
    const char* const mend =
        has_only_a_world(path) ? "run chmod 0770 on it, or choose another one" : "choose another one";
    return refuse(path, "has mode " + octal(mode) + ", expected at most 0770 with HOLDFAST_SHARE=group; " + mend);
  }
  if ((mode & 0777 & ~kPrivateMode) == 0) return {};
  // A sticky directory is meant for all users, like /dev/shm itself.
  const bool may_close = (mode & S_ISVTX) == 0 && has_only_a_world(path);
  const std::string chmod = may_close ? "run chmod 700 " + path + ", or " : "";
  const std::string mend = is_of_group(mode) ? kShareIt : chmod;
  return refuse(path, "has mode " + octal(mode) + ", expected 0700: other users must not have access; " + mend +
                          "choose another one: export HOLDFAST_DIR=" + place_to_suggest());
}

// Checks the owner, because an owner may change group and mode, and may remove every file.
Status judge_shared_owner(const std::string& path, const struct stat& info, std::optional<uid_t> named) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && info.st_uid != named) {
    return refuse(
        path,
        "is owned by uid " + std::to_string(info.st_uid) + "; with HOLDFAST_SHARE=group its owner must be root, uid " +
            std::to_string(::geteuid()) + " (this process), or " +
            (named ? "uid " + std::to_string(*named) + " (HOLDFAST_OWNER)" : "the user that HOLDFAST_OWNER names"));
  }
  if (is_our_group(info.st_gid)) return {};
  return refuse(path, "belongs to group " + std::to_string(info.st_gid) +
                          ", but this process is not in that group (HOLDFAST_SHARE=group); add its user to the group");
}

Expected<RuntimeDirectory::Sharing> sharing_from_environment() {
  const char* const share = ::secure_getenv("HOLDFAST_SHARE");
  if (share == nullptr || *share == '\0') return RuntimeDirectory::Sharing::none;
  if (std::string_view(share) == "group") return RuntimeDirectory::Sharing::group;
  return Status{Code::invalid, "bad HOLDFAST_SHARE \"" + std::string(share) + "\": expected \"group\", or no value"};
}

// Accepts only a number, because to look up a name, the C library would load modules into every program.
Expected<std::optional<uid_t>> owner_from_environment() {
  const char* const text = ::secure_getenv("HOLDFAST_OWNER");
  if (text == nullptr || *text == '\0') return std::optional<uid_t>();
  uid_t user = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, user);
  if (error == std::errc() && stopped == end && user != static_cast<uid_t>(-1)) return std::optional<uid_t>(user);
  return Status{Code::invalid, "bad HOLDFAST_OWNER \"" + std::string(text) +
                                   "\": expected a user id, as `id -u NAME` prints it, or no value"};
}

}  // namespace

Expected<RuntimeDirectory> RuntimeDirectory::from_environment(Missing missing) {
  const auto sharing = sharing_from_environment();
  if (!sharing) return sharing.status();
  const auto owner = owner_from_environment();
  if (!owner) return owner.status();
  if (*owner && *sharing == Sharing::none) {
    return Status{Code::invalid, "HOLDFAST_OWNER is set without HOLDFAST_SHARE=group; set both or neither"};
  }
  return at(directory_from_environment(::geteuid()), *sharing, *owner, missing);
}

Expected<RuntimeDirectory> RuntimeDirectory::at(const std::string& path, Sharing sharing, std::optional<uid_t> owner,
                                                Missing missing) {
  auto whole = absolute(path);
  if (!whole) return whole.status();
  RuntimeDirectory directory;
  directory.path_ = std::move(*whole);
  directory.sharing_ = sharing;
  directory.owner_ = owner;
  directory.user_ = ::geteuid();
  if (::access(directory.path_.c_str(), F_OK) != 0 && errno == ENOENT) {
    if (missing == Missing::refuse) return Status{Code::not_found, "there is no runtime directory " + directory.path_};
    // No group was named, and this user's own group would exclude the users who share the directory.
    if (sharing == Sharing::group) return explain_missing_shared_directory(directory.path_);
    if (Status made = create_directory(directory.path_); !made.ok()) return made;
  }
  auto opened = directory.open();
  if (!opened) return opened.status();
  struct stat info;
  if (::fstat(opened->get(), &info) != 0) {
    return Status{Code::system, "cannot stat " + directory.path_ + ": " + platform::error_text(errno)};
  }
  directory.id_ = id_of(info);
  directory.group_ = info.st_gid;
  return directory;
}

Status RuntimeDirectory::judge(const struct stat& info) const {
  if (sharing_ == Sharing::group) {
    if (Status owner = judge_shared_owner(path_, info, owner_); !owner.ok()) return owner;
  } else if (info.st_uid != ::geteuid()) {
    return explain_foreign_owner(path_, info);
  }
  return judge_mode(path_, info.st_mode & 07777, sharing_);
}

namespace {

struct Visited {
  int fd = -1;
  platform::FileId id;
};
constinit thread_local Visited visited{};
static_assert(std::is_trivially_destructible_v<decltype(visited)>);

}  // namespace

RuntimeDirectory::Visit::Visit(const RuntimeDirectory& directory) {
  if (visited.fd >= 0) return;
  auto opened = directory.open_path();
  if (!opened) return;  // open() says why
  fd_ = std::move(*opened);
  visited = {fd_.get(), directory.id_};
}

RuntimeDirectory::Visit::~Visit() {
  if (fd_) visited = {};
}

// The host may have closed the descriptor of a visit, so the descriptor is checked, here and in open().
Expected<CheckedDirectory> RuntimeDirectory::open_as_it_is() const {
  if (visited.id == id_ && platform::is_file(visited.fd, id_)) return CheckedDirectory(visited.fd);
  auto fd = open_path();
  if (!fd) return fd.status();
  return CheckedDirectory(std::move(*fd));
}

Expected<platform::FileDescriptor> RuntimeDirectory::open_path() const {
  if (path_.empty()) return Status{Code::invalid, "no runtime directory was chosen"};
  const bool user_changed = ::geteuid() != user_;
  platform::FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    return error == EACCES && user_changed ? explain_changed_user(path_, user_)
                                           : explain_open_failure(path_, error, sharing_);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) {
    return Status{Code::system, "cannot stat " + path_ + ": " + platform::error_text(errno)};
  }
  if (Status judged = judge(info); !judged.ok()) return user_changed ? explain_changed_user(path_, user_) : judged;
  if (Status system = judge_file_system(path_, fd.get()); !system.ok()) return system;

  const platform::FileId now = id_of(info);
  if (id_ != platform::FileId{} && id_ != now) {
    return Status{Code::system, "runtime directory " + path_ +
                                    " was removed and created again while this process used it; restart the process"};
  }
  return fd;
}

Expected<CheckedDirectory> RuntimeDirectory::open() const {
  if (!is_anchored()) return open_as_it_is();
  const auto has_anchor = [&](int fd) {
    struct stat info;
    return ::fstatat(fd, anchor_name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && id_of(info) == anchor_id_;
  };
  if (visited.id == id_ && has_anchor(visited.fd)) return CheckedDirectory(visited.fd);
  auto fd = open_path();
  if (!fd) return fd.status();
  if (has_anchor(fd->get())) return CheckedDirectory(std::move(*fd));
  return Status{Code::system,
                path_of(anchor_name_) + " was removed or replaced while this process used it; restart the process"};
}

namespace {

/// Returns whether the path certainly leads to another file, or to no file.
bool is_elsewhere(const std::string& path, const platform::FileId& id) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT || errno == ENOTDIR;
  return id_of(info) != id;
}

}  // namespace

bool RuntimeDirectory::is_gone() const {
  if (id_ != platform::FileId{} && is_elsewhere(path_, id_)) return true;
  return is_anchored() && is_elsewhere(path_of(anchor_name_), anchor_id_);
}

void RuntimeDirectory::anchor(std::string name, platform::FileId id, const WorldId& world, Word64* made, Word64* kept) {
  anchor_name_ = std::move(name);
  anchor_id_ = id;
  world_ = world;
  made_name_files_ = made;
  kept_uses_ = kept;
}

Expected<platform::FileDescriptor> RuntimeDirectory::open_anchor(int access) const {
  auto directory_fd = open();  // also detects that the path leads to another directory
  if (!directory_fd) return directory_fd.status();
  platform::FileDescriptor fd(
      ::openat(directory_fd->get(), anchor_name_.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return Status{Code::system, "cannot open " + path_of(anchor_name_) + ": " + platform::error_text(errno)};
  platform::FileId id;
  if (const int error = platform::file_id(fd.get(), id); error != 0 || id != anchor_id_)
    return Status{Code::system, path_of(anchor_name_) + " was replaced while this process used it"};
  return fd;
}

}  // namespace holdfast
