#include "inspect/user_directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "inspect/descriptor.h"
#include "inspect/text.h"
#include "world/runtime_directory.h"

namespace holdfast::inspect {

namespace {

/// Returns the user in a name "holdfast-UID". Accepts only the exact name of a user's default directory.
std::optional<uid_t> user_in(const std::string& path) {
  constexpr std::uint64_t kUidMax = std::numeric_limits<uid_t>::max() - 1;
  const auto number = whole_number_of(std::string_view(path).substr(path.rfind('-') + 1));
  if (!number || *number > kUidMax || default_directory(static_cast<uid_t>(*number)) != path) return std::nullopt;
  return static_cast<uid_t>(*number);
}

/// Opens a directory in the same file system as `parent`, only for fstat.
Descriptor open_to_stat(int parent, const char* name) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#ifdef SYS_openat2
  constexpr std::uint64_t kCrossNoMountPoint = 1;  // RESOLVE_NO_XDEV
  struct {
    std::uint64_t flags, mode, resolve;
  } how{kFlags, 0, kCrossNoMountPoint};
  const long opened = ::syscall(SYS_openat2, parent, name, &how, sizeof how);
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return Descriptor(static_cast<int>(opened));
#endif
  return Descriptor(::openat(parent, name, kFlags));  // Linux before 5.6, or a sandbox
}

bool belongs_to(int parent, const char* name, uid_t user) {
  const Descriptor opened = open_to_stat(parent, name);
  struct stat info {};
  return opened.get() >= 0 && ::fstat(opened.get(), &info) == 0 && info.st_uid == user;
}

}  // namespace

UserDirectories find_user_directories() {
  UserDirectories all;
  const std::string sample = default_directory(0);
  const std::string parent = sample.substr(0, sample.rfind('/'));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(parent.c_str()), ::closedir);
  if (stream == nullptr) return all;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string path = parent + "/" + entry->d_name;
    const auto user = user_in(path);
    if (!user) continue;
    if (belongs_to(::dirfd(stream.get()), entry->d_name, *user))
      all.found.push_back({path, *user});
    else
      all.refused.push_back(path);
  }
  std::sort(all.found.begin(), all.found.end(),
            [](const UserDirectory& one, const UserDirectory& other) { return one.user < other.user; });
  std::sort(all.refused.begin(), all.refused.end());
  if (all.found.size() > UserDirectories::kMost) {
    all.left_out = all.found.size() - UserDirectories::kMost;
    all.found.resize(UserDirectories::kMost);
  }
  return all;
}

}  // namespace holdfast::inspect
