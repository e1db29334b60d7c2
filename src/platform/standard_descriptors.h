// Handles a standard input, output or error that was closed when the program started.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace holdfast {

/// Opens /dev/null for each closed one, so that nothing else gets its number. Reading or writing still fails: it is
/// opened in the opposite direction. Programs that this one starts inherit this. Call it first in main().
inline void occupy_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Without /dev/null it stays closed.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace holdfast
