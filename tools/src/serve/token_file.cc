#include "serve/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/name.h"
#include "inspect/descriptor.h"

namespace holdfast::serve {

namespace {

constexpr std::size_t kLeast = 16;
constexpr std::size_t kMost = 512;
constexpr mode_t kOfOthers = 077;

}  // namespace

Expected<std::string> read_token(const std::string& path) {
  const std::string file = "token file " + quote(path);
  const auto failure = [&] { return Status{Code::system, fmt::format("{}: {}", file, std::strerror(errno))}; };
  const inspect::Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (opened.get() < 0 || ::fstat(opened.get(), &info) != 0) return failure();
  if (!S_ISREG(info.st_mode)) return Status{Code::invalid, fmt::format("{} is not a regular file", file)};
  std::array<char, kMost + 2> room{};
  const ssize_t size = ::read(opened.get(), room.data(), room.size());
  if (size < 0) return failure();
  std::string_view token(room.data(), static_cast<std::size_t>(size));
  if (token.ends_with('\n')) token.remove_suffix(1);
  const bool is_printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (token.size() < kLeast || token.size() > kMost || !is_printable)
    return Status{Code::invalid, fmt::format("{}: expected one line of {} to {} printable characters without blanks",
                                             file, kLeast, kMost)};
  // Check the mode after the content, so that no message suggests chmod for a file that is not a token file.
  if ((info.st_mode & kOfOthers) != 0)
    return Status{Code::permission, fmt::format("{} is open to other users (mode {:04o}); run chmod 600 on it", file,
                                                static_cast<unsigned>(info.st_mode & 07777U))};
  return std::string(token);
}

}  // namespace holdfast::serve
