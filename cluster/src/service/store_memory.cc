#include "service/store_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "platform/platform.h"
#include "world/world_file.h"

namespace holdfast::agent {

namespace {

constexpr std::size_t kIdMax = 20;  // decimal digits of 64 bits

/// Returns the first path of a colon-separated list.
std::string of_manager() {
  const char* const listed = std::getenv("STATE_DIRECTORY");
  const std::string_view list = listed != nullptr ? listed : "";
  return std::string(list.substr(0, list.find(':')));
}

bool is_id(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= kIdMax && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

StoreMemory::StoreMemory(const std::string& configured, const std::string& runtime_directory,
                         const std::string& cluster) {
  directory_ = !configured.empty() ? configured : of_manager();
  // In the runtime directory, the file's name begins with a dot, so no dictionary's file can have the same name.
  name_ = (directory_.empty() ? ".store-" : "store-") + cluster;
  if (directory_.empty()) directory_ = runtime_directory;
  path_ = directory_ + "/" + name_;
}

Expected<std::string> StoreMemory::read() const {
  const auto refuse = [this](Code code, const std::string& why) {
    return Status{code, fmt::format("cannot read the id of the cluster's store: {}: {}; remove that file if the "
                                    "endpoints are right",
                                    path_, why)};
  };
  const platform::FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file)
    return errno == ENOENT ? Expected<std::string>(std::string()) : refuse(Code::system, platform::error_text(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return refuse(Code::system, platform::error_text(errno));
  if (!S_ISREG(info.st_mode)) return refuse(Code::invalid, "it is not a regular file");
  std::array<char, kIdMax + 2> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return refuse(Code::system, platform::error_text(errno));
  std::string id(text.data(), static_cast<std::size_t>(size));
  if (id.ends_with('\n')) id.pop_back();
  return is_id(id) ? Expected<std::string>(id) : refuse(Code::invalid, "it does not contain a store's id");
}

// Writes a file with a different name first, so that either the old or the new content exists if the agent dies. The
// file must be new, so that the agent does not write to another user's file or link.
Status StoreMemory::write(const std::string& id) const {
  const auto failure = [this] {
    return Status{Code::system,
                  fmt::format("cannot save the id of the cluster's store: {}: {}; after a restart, this agent "
                              "may accept another store",
                              path_, platform::error_text(errno))};
  };
  const platform::FileDescriptor directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return failure();
  const std::string made = fmt::format("{}{:016x}", kTemporaryPrefix, platform::random_number());
  const platform::FileDescriptor file(
      ::openat(directory.get(), made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return failure();
  const std::string line = id + "\n";
  errno = ENOSPC;  // reported if only a part of the line is written
  // Let others read the file: the id is not secret, and the next agent in a group's directory may run as a different
  // user.
  const bool written = ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 &&
                       ::renameat(directory.get(), made.c_str(), directory.get(), name_.c_str()) == 0 &&
                       ::fsync(directory.get()) == 0;
  if (written) return {};
  const int error = errno;
  ::unlinkat(directory.get(), made.c_str(), 0);
  errno = error;
  return failure();
}

}  // namespace holdfast::agent
