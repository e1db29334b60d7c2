#include "world/kept_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;

constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
constexpr mode_t kMode = 0400;
constexpr mode_t kGroupMode = 0440;

Status cannot_make(const RuntimeDirectory& directory, const std::string& name, int error) {
  return {error == EACCES || error == EPERM ? Code::permission : Code::system,
          "cannot create " + directory.path_of(name) + ": " + platform::error_text(error)};
}

/// Makes the file readable for all users of the world and takes its lock. Returns 0 or an errno value.
int prepare(const RuntimeDirectory& directory, int fd) noexcept {
  const bool shares = directory.sharing() == RuntimeDirectory::Sharing::group;
  if (shares && ::fchown(fd, static_cast<uid_t>(-1), directory.group()) != 0) return errno;
  if (::fchmod(fd, shares ? kGroupMode : kMode) != 0) return errno;
  return platform::try_shared_record_lock(fd, 0);
}

Expected<FileDescriptor> make(const RuntimeDirectory& directory, const std::string& name) {
  auto directory_fd = directory.open();
  if (!directory_fd) return directory_fd.status();
  const int where = directory_fd->get();
  const std::string temporary = temporary_name();
  FileDescriptor fd(::openat(where, temporary.c_str(), O_CREAT | O_EXCL | kOpenFlags, kMode));
  if (!fd) return cannot_make(directory, name, errno);
  int error = prepare(directory, fd.get());
  // If a file already has the name, a process that was killed here has left it behind.
  if (error == 0 && ::renameat(where, temporary.c_str(), where, name.c_str()) != 0) error = errno;
  if (error == 0) return fd;
  ::unlinkat(where, temporary.c_str(), 0);
  return cannot_make(directory, name, error);
}

Kept look_at(int directory_fd, const char* name) noexcept {
  const FileDescriptor fd(::openat(directory_fd, name, kOpenFlags));
  if (!fd) return errno == ENOENT ? Kept::missing : errno == ELOOP ? Kept::ended : Kept::unknown;
  std::uint64_t holder = platform::kNoHolder;
  if (platform::find_record_lock(fd.get(), 0, 1, holder) != 0) return Kept::unknown;
  return holder != platform::kNoHolder ? Kept::locked : Kept::ended;
}

bool is_kept(Kept kept) noexcept { return kept == Kept::locked || kept == Kept::unknown; }

/// Calls `visit` with the name of each kept file until `visit` returns false. Returns whether it visited all of them.
bool for_each_name(int directory_fd, const std::function<bool(const char*)>& visit) {
  return platform::list_directory(directory_fd, [&](const char* name) { return !is_kept_file(name) || visit(name); }) ==
         0;
}

template <class IsWanted>
bool is_any_kept(const RuntimeDirectory& directory, IsWanted&& is_wanted) {
  auto directory_fd = directory.open_as_it_is();
  if (!directory_fd) return true;
  const int where = directory_fd->get();
  return !for_each_name(
      where, [&](const char* name) { return !is_wanted(std::string_view(name)) || !is_kept(look_at(where, name)); });
}

}  // namespace

Expected<FileDescriptor> keep_life(const RuntimeDirectory& directory, Token token) {
  return make(directory, hold_file_name(token));
}

Expected<FileDescriptor> keep_use(const RuntimeDirectory& directory, std::uint64_t byte) {
  return make(directory, use_file_prefix(byte) + hexadecimal(platform::random_number()));
}

Kept find_life(const RuntimeDirectory& directory, Token token) noexcept {
  try {
    auto directory_fd = directory.open_as_it_is();
    return directory_fd ? look_at(directory_fd->get(), hold_file_name(token).c_str()) : Kept::unknown;
  } catch (...) {
    return Kept::unknown;  // no memory for the path
  }
}

bool for_each_life(const RuntimeDirectory& directory, const std::function<void(Token)>& visit) {
  auto directory_fd = directory.open_as_it_is();
  return directory_fd && for_each_name(directory_fd->get(), [&](const char* name) {
           if (const Token token = token_of_hold_file(name); token != kNobody) visit(token);
           return true;
         });
}

void forget_life(const RuntimeDirectory& directory, Token token) noexcept {
  try {
    if (auto directory_fd = directory.open()) ::unlinkat(directory_fd->get(), hold_file_name(token).c_str(), 0);
  } catch (...) {
    return;  // no memory for the path: the file stays until the world has no process
  }
}

bool is_anything_kept(const RuntimeDirectory& directory) {
  return is_any_kept(directory, [](std::string_view) { return true; });
}

bool is_use_kept(const RuntimeDirectory& directory, std::uint64_t byte) {
  return is_any_kept(directory, [byte](std::string_view name) { return byte_of_use_file(name) == byte; });
}

bool is_other_use_kept(const RuntimeDirectory& directory, std::uint64_t first, std::uint64_t end, std::uint64_t own) {
  return is_any_kept(directory, [=](std::string_view name) {
    const std::uint64_t byte = byte_of_use_file(name);
    return byte >= first && byte < end && byte != own;
  });
}

void forget_uses(const RuntimeDirectory& directory, std::uint64_t byte) {
  auto directory_fd = directory.open();
  if (!directory_fd) return;
  for_each_name(directory_fd->get(), [&](const char* name) {
    if (byte_of_use_file(name) == byte) ::unlinkat(directory_fd->get(), name, 0);
    return true;
  });
}

bool remove_leftover(int directory_fd, const char* name) noexcept {
  const Kept kept = look_at(directory_fd, name);
  return kept == Kept::missing || (kept == Kept::ended && ::unlinkat(directory_fd, name, 0) == 0);
}

void remove_left_uses(const RuntimeDirectory& directory) {
  auto directory_fd = directory.open();
  if (!directory_fd) return;
  for_each_name(directory_fd->get(), [&](const char* name) {
    if (std::string_view(name).starts_with(kUsePrefix)) remove_leftover(directory_fd->get(), name);
    return true;
  });
}

}  // namespace holdfast
