#include "etcd/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace holdfast::test {

namespace {

[[noreturn]] void give_up(const char* call) {
  std::perror(call);
  std::abort();
}

int bound_socket(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    give_up("a socket on 127.0.0.1");
  port = ntohs(address.sin_port);
  return fd;
}

std::string small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

FakeRequest parse_head(const std::string& head) {
  FakeRequest request;
  const std::size_t path = head.find(' ') + 1;
  request.path = head.substr(path, head.find(' ', path) - path);
  for (std::size_t line = head.find("\r\n"); line != std::string::npos; line = head.find("\r\n", line + 2)) {
    const std::size_t colon = head.find(':', line);
    if (colon == std::string::npos) break;
    const std::size_t end = std::min(head.find("\r\n", colon), head.size());
    const std::size_t value = std::min(head.find_first_not_of(' ', colon + 1), end);
    request.headers[small(head.substr(line + 2, colon - line - 2))] = head.substr(value, end - value);
  }
  return request;
}

/// Reads more data. Returns false at the end of the connection.
bool read_more(int fd, std::string& buffer) {
  char part[4096];
  const ssize_t got = ::read(fd, part, sizeof part);
  if (got <= 0) return false;
  buffer.append(part, static_cast<std::size_t>(got));
  return true;
}

}  // namespace

void FakeConnection::send(const std::string& bytes) const {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t part = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (part <= 0) return;  // the client is gone
    sent += static_cast<std::size_t>(part);
  }
}

void FakeConnection::answer(int status, const std::string& body) const {
  send("HTTP/1.1 " + std::to_string(status) +
       " Said\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

void FakeConnection::begin_stream() const {
  send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void FakeConnection::chunk(const std::string& bytes) const {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  send(size + bytes + "\r\n");
}

void FakeConnection::close() { ::shutdown(fd_, SHUT_RDWR); }

void FakeConnection::reset() {
  const sockaddr nobody{AF_UNSPEC, {}};
  ::connect(fd_, &nobody, sizeof nobody);
}

void FakeConnection::stay_silent() {
  std::unique_lock hold(server_.mutex_);
  server_.end_.wait(hold, [this] { return server_.ending_; });
}

FakeServer::FakeServer(Handler handler) : handler_(std::move(handler)), listener_(bound_socket(port_)) {
  if (::listen(listener_, 64) != 0) give_up("listen");
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeServer::~FakeServer() {
  {
    const std::scoped_lock hold(mutex_);
    ending_ = true;
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
  }
  end_.notify_all();
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : connections_) ::close(fd);
  ::close(listener_);
}

std::vector<FakeRequest> FakeServer::seen() {
  const std::scoped_lock hold(mutex_);
  return seen_;
}

int FakeServer::count(const std::string& path) {
  const std::scoped_lock hold(mutex_);
  return static_cast<int>(
      std::count_if(seen_.begin(), seen_.end(), [&](const FakeRequest& request) { return request.path == path; }));
}

void FakeServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::scoped_lock hold(mutex_);
    if (fd < 0 || ending_) {
      if (fd >= 0) ::close(fd);
      return;
    }
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connections_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeServer::serve(int fd) {
  FakeConnection connection(fd, *this);
  std::string buffer;
  for (int number = 1;; ++number) {
    std::size_t end;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
      if (!read_more(fd, buffer)) return connection.close();
    FakeRequest request = parse_head(buffer.substr(0, end));
    const auto length = static_cast<std::size_t>(std::strtoull(request.headers["content-length"].c_str(), nullptr, 10));
    while (buffer.size() < end + 4 + length)
      if (!read_more(fd, buffer)) return connection.close();
    request.body = buffer.substr(end + 4, length);
    buffer.erase(0, end + 4 + length);
    request.of_connection = number;
    {
      const std::scoped_lock hold(mutex_);
      seen_.push_back(request);
    }
    handler_(request, connection);
  }
}

int free_port() {
  int port = 0;
  ::close(bound_socket(port));
  return port;
}

}  // namespace holdfast::test
