// The runtime directory defines a world: all processes that share the directory belong to one world.
//
// It is $HOLDFAST_DIR, or else /dev/shm/holdfast-<euid>. The path is checked every time it is opened, because the
// directory's users may write into this process's memory. It must be a directory (not a symbolic link) on tmpfs, owned
// by this user and closed to all other users. HOLDFAST_SHARE=group lets several users share it. A shared directory may
// belong to root, to this user, or to the user with the number HOLDFAST_OWNER. Its group must be one of this process's
// groups (any group for root), its mode may be up to 0770, and files in it are checked against that group.
//
// The owner matters as much as the group, because every user may make directories in /dev/shm. An outsider may have
// made this directory before root ran `install -d -m 0770 -g`. This command sets mode and group, but the outsider
// remains the owner, and may delete `processes` at any time. HOLDFAST_OWNER is a number, because to look up a name,
// glibc would load modules into every program. Nothing protects against members of the group, because they may write
// into the locks anyway.
//
// All changes are made relative to a descriptor of the parent directory, never by path. The environment is read with
// secure_getenv, because the caller of a set-uid program must not choose where the program keeps its locks.
//
// The directory is remembered by its absolute path and its inode, not by a descriptor. So a process that closes all its
// descriptors stays in its world, and detects when the directory has been removed and made again.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic.h"
#include "base/status.h"
#include "platform/platform.h"
#include "world/world_file.h"

namespace holdfast {

/// In HOLDFAST_DIR, this text stands for kLayoutVersion, so that programs of different layouts have separate worlds.
inline constexpr std::string_view kLayoutPlaceholder = "@layout@";

inline std::string with_layout(std::string path) {
  const std::string number = std::to_string(kLayoutVersion);
  for (std::size_t at = 0; (at = path.find(kLayoutPlaceholder, at)) != std::string::npos; at += number.size()) {
    path.replace(at, kLayoutPlaceholder.size(), number);
  }
  return path;
}

inline std::string default_directory(uid_t user) { return "/dev/shm/holdfast-" + std::to_string(user); }

/// Returns $HOLDFAST_DIR, or else the user's default directory.
inline std::string directory_from_environment(uid_t user) {
  const char* const chosen = ::secure_getenv("HOLDFAST_DIR");
  return chosen != nullptr && *chosen != '\0' ? with_layout(chosen) : default_directory(user);
}

/// Returns the mode as chmod takes it, such as "0700", for messages.
inline std::string octal(std::uint32_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

inline platform::FileId id_of(const struct stat& info) noexcept {
  return {.device = info.st_dev, .inode = info.st_ino};
}

/// A descriptor of a directory that was checked. It may belong to a RuntimeDirectory::Visit.
class CheckedDirectory {
 public:
  explicit CheckedDirectory(platform::FileDescriptor own) noexcept : own_(std::move(own)), fd_(own_.get()) {}
  explicit CheckedDirectory(int fd_of_visit) noexcept : fd_(fd_of_visit) {}
  int get() const noexcept { return fd_; }

 private:
  platform::FileDescriptor own_;
  int fd_;
};

class RuntimeDirectory {
 public:
  enum class Sharing { none, group };

  /// While this object exists, open() in this thread uses the same descriptor, instead of opening and checking the path
  /// each time. So open() may not notice yet that another directory has taken the name.
  class Visit {
   public:
    explicit Visit(const RuntimeDirectory& directory);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    platform::FileDescriptor fd_;  // empty inside another visit
  };

  /// Makes an object without a directory; its open() fails.
  RuntimeDirectory() = default;

  enum class Missing { make, refuse };

  /// Returns the directory that the environment names. If the directory is missing and its parent exists, creates it
  /// with mode 0700, or fails with not_found, as `missing` says. A set-uid program uses the default, because its caller
  /// must not choose where its locks are.
  static Expected<RuntimeDirectory> from_environment(Missing missing = Missing::make);
  /// Does the same for a given path. A relative path becomes absolute immediately. With sharing, the directory may also
  /// belong to `owner`.
  static Expected<RuntimeDirectory> at(const std::string& path, Sharing sharing = Sharing::none,
                                       std::optional<uid_t> owner = std::nullopt, Missing missing = Missing::make);

  /// Returns the path, which is absolute and has no trailing slash.
  const std::string& path() const noexcept { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  Sharing sharing() const noexcept { return sharing_; }
  /// Returns the group that files get, and against which they are checked. REQUIRES: sharing() is group.
  gid_t group() const noexcept { return group_; }

  /// Opens the directory and checks it again. Fails if another directory has taken the name, or if the anchor is gone.
  Expected<CheckedDirectory> open() const;
  /// Opens the directory without checking the anchor.
  Expected<CheckedDirectory> open_as_it_is() const;

  /// Returns whether open() fails permanently: the name leads to no directory or to another directory, or the anchor is
  /// gone.
  bool is_gone() const;

  /// Sets the anchor: from now on, open() requires that `name` in this directory is the file with this id. Without this
  /// check, processes with different process tables could share a dictionary. `made` and `kept` are in memory of that
  /// file, which must stay mapped as long as names are opened.
  void anchor(std::string name, platform::FileId id, const WorldId& world, Word64* made, Word64* kept);
  bool is_anchored() const noexcept { return !anchor_name_.empty(); }
  /// Returns a new description of the anchor, opened with O_RDWR or O_RDONLY. REQUIRES: is_anchored().
  Expected<platform::FileDescriptor> open_anchor(int access) const;
  /// Returns the world, for world/name_file.h. REQUIRES: is_anchored().
  const WorldId& world() const noexcept { return world_; }
  Word64* made_name_files() const noexcept { return made_name_files_; }
  /// Returns the word kept_uses, for world/name_use.h. REQUIRES: is_anchored().
  Word64& kept_uses() const noexcept { return *kept_uses_; }

 private:
  Status judge(const struct stat& info) const;
  Expected<platform::FileDescriptor> open_path() const;

  std::string path_;
  Sharing sharing_ = Sharing::none;
  std::optional<uid_t> owner_;
  uid_t user_ = 0;  // the user for whom the directory was chosen
  gid_t group_ = 0;
  platform::FileId id_;
  std::string anchor_name_;
  platform::FileId anchor_id_;
  WorldId world_;
  Word64* made_name_files_ = nullptr;
  Word64* kept_uses_ = nullptr;
};

}  // namespace holdfast
