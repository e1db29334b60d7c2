#include <unistd.h>

#include <cerrno>

#include "platform/left_open.h"
#include "platform/platform.h"

namespace holdfast::platform {

int GuardedSocket::adopt(FileDescriptor fd) noexcept {
  FileId id;
  if (const int error = file_id(fd.get(), id)) return error;
  close();
  fd_ = fd.release();
  id_ = id;
  return 0;
}

void GuardedSocket::close() noexcept {
  close_if_file(fd_, id_);
  fd_ = -1;
}

// Each socket is a file of its own, so it can be told from the next user of its number; all eventfds look the same.
bool GuardedSocket::intact() const noexcept { return is_file(fd_, id_); }

bool GuardedSocket::is_lost() const noexcept {
  FileId now;
  const int error = file_id(fd_, now);
  return error == 0 ? now != id_ : error == EBADF;
}

}  // namespace holdfast::platform
