#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "platform/platform.h"

namespace holdfast::platform {

// Empty datagrams make a socket readable. Should the host give the number to another descriptor between the check and
// the send, a pipe or file refuses them and a connection carries nothing.
int Readiness::open() noexcept {
  close();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return errno;
  FileDescriptor reader(pair[0]);
  FileDescriptor writer(pair[1]);
  int error = reader_.adopt(std::move(reader));
  if (error == 0) error = writer_.adopt(std::move(writer));
  if (error != 0) close();
  return error;
}

void Readiness::close() noexcept {
  reader_.close();
  writer_.close();
  signalled_ = false;
}

void Readiness::signal() noexcept {
  if (signalled_ || !writer_.intact()) return;
  signalled_ = ::send(writer_.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL) == 0;
}

void Readiness::drain() noexcept {
  if (!std::exchange(signalled_, false) || !reader_.intact()) return;
  char nothing = 0;
  static_cast<void>(::recv(reader_.get(), &nothing, sizeof nothing, MSG_DONTWAIT));
}

}  // namespace holdfast::platform
