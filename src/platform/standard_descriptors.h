// Handles a standard input, output or error that was closed when the program started.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace holdfast {

/// Says whether standard descriptor `fd` was closed when the program started.
inline std::array<bool, 3> was_closed{};

/// Opens /dev/null for each closed standard descriptor, so that no other file gets its number. Reading and writing
/// still fail, because /dev/null is opened in the opposite direction. Programs that this program starts inherit these
/// descriptors. Call this first in main().
inline void occupy_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // `fd` is the lowest free number. It stays closed if there is no /dev/null.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
    was_closed[static_cast<std::size_t>(fd)] = true;
  }
}

}  // namespace holdfast
