// Sockets for event loops: sockets that a host may close, and a connection of this process to itself.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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

// Returns whether the socket is open, and was not closed by the host. Each socket is a file with a unique identity, so
// it can be distinguished from a file that gets its number later. Eventfds could not be distinguished, because all of
// them have the same identity.
bool GuardedSocket::intact() const noexcept { return is_file(fd_, id_); }

bool GuardedSocket::is_lost() const noexcept {
  FileId now;
  const int error = file_id(fd_, now);
  return error == 0 ? now != id_ : error == EBADF;
}

// Opens a pair of sockets. The signal is an empty datagram, which makes the socket readable. The host may give the
// number to a different descriptor between the check and the send. In this case, a pipe or file refuses the datagram,
// and a stream connection does not transmit anything.
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

namespace {

bool is_from_this_process(int fd) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == ::getpid();
}

}  // namespace

int SelfConnection::listen(const std::string& path) noexcept {
  constexpr int kBacklog = 8;
  constexpr mode_t kOnlyThisUser = 0600;
  close();
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), static_cast<char*>(address.sun_path));
  FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // bind() creates the file with the mode that is set here.
  if (!listener || ::fchmod(listener.get(), kOnlyThisUser) != 0) return errno;
  std::string name;
  try {
    name = path;
  } catch (...) {
    return ENOMEM;
  }
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return errno;
  path_ = std::move(name);
  listening_pid_ = ::getpid();
  int error = ::listen(listener.get(), kBacklog) == 0 ? 0 : errno;
  if (error == 0) error = listener_.adopt(std::move(listener));
  if (error != 0) end_listening();
  return error;
}

int SelfConnection::accept() noexcept {
  if (!listener_.intact()) return EAGAIN;
  int error = EAGAIN;
  for (;;) {
    FileDescriptor connection(
        uninterrupted([this] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }));
    if (!connection) {
      if (errno == ECONNABORTED) continue;
      return errno == EAGAIN ? error : errno;
    }
    error = EPERM;
    if (!is_from_this_process(connection.get())) continue;
    connection_.close();
    error = connection_.adopt(std::move(connection));
    signalled_ = false;
    end_listening();
    return error;
  }
}

void SelfConnection::close() noexcept {
  end_listening();
  connection_.close();
  signalled_ = false;
}

void SelfConnection::end_listening() noexcept {
  listener_.close();
  if (!path_.empty() && listening_pid_ == ::getpid()) ::unlink(path_.c_str());
  path_.clear();
}

void SelfConnection::signal() noexcept {
  if (signalled_ || !connection_.intact()) return;
  constexpr char kByte = '!';
  if (::send(connection_.get(), &kByte, sizeof kByte, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || errno == EAGAIN) {
    signalled_ = true;  // if the buffer is full, the loop already has a byte to read
  } else {
    connection_.close();  // the loop has closed its end
  }
}

}  // namespace holdfast::platform
