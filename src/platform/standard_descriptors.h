// What a program does about standard input, output or error that was closed when it was started.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace holdfast {

/// Opens /dev/null in the place of each that is closed, so that nothing else gets its number. As before, nothing can be
/// read from there or written there: it is open the other way round. Programs that are started later get the same.
/// Call it first in main().
inline void occupy_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one. Without /dev/null it stays closed.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace holdfast
