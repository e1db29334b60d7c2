#include "serve/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "base/name.h"
#include "inspect/text.h"

namespace holdfast::serve {

namespace {

constexpr std::uint64_t kPortMax = 65535;
constexpr int kBacklog = 128;

Status bad(const std::string& text) {
  return {Code::invalid, fmt::format("bad address {}: expected IP:PORT, as in 127.0.0.1:9145 or [::1]:9145, with a "
                                     "port from 0 to {}",
                                     quote(text), kPortMax)};
}

sockaddr_in& four(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in&>(storage); }
sockaddr_in6& six(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in6&>(storage); }
const sockaddr_in& four(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in&>(storage); }
const sockaddr_in6& six(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in6&>(storage); }

}  // namespace

Expected<Address> Address::parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad(text);
  const auto port = inspect::whole_number_of(text.substr(colon + 1));
  std::string host = text.substr(0, colon);
  if (!port || *port > kPortMax || host.empty()) return bad(text);
  if (host == "localhost") host = "127.0.0.1";
  Address address;
  if (host.front() == '[' && host.back() == ']') {
    six(address.storage_).sin6_family = AF_INET6;
    six(address.storage_).sin6_port = htons(static_cast<std::uint16_t>(*port));
    address.size_ = sizeof(sockaddr_in6);
    host = host.substr(1, host.size() - 2);
    if (::inet_pton(AF_INET6, host.c_str(), &six(address.storage_).sin6_addr) != 1) return bad(text);
    return address;
  }
  four(address.storage_).sin_family = AF_INET;
  four(address.storage_).sin_port = htons(static_cast<std::uint16_t>(*port));
  address.size_ = sizeof(sockaddr_in);
  if (::inet_pton(AF_INET, host.c_str(), &four(address.storage_).sin_addr) != 1) return bad(text);
  return address;
}

bool Address::is_loopback() const noexcept {
  constexpr std::uint32_t kLoopbackNet = 127;
  if (storage_.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&six(storage_).sin6_addr);
  return ntohl(four(storage_).sin_addr.s_addr) >> 24 == kLoopbackNet;
}

std::string Address::text() const {
  char number[INET6_ADDRSTRLEN] = "";
  if (storage_.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &six(storage_).sin6_addr, static_cast<char*>(number), sizeof number);
    return fmt::format("[{}]:{}", static_cast<const char*>(number), ntohs(six(storage_).sin6_port));
  }
  ::inet_ntop(AF_INET, &four(storage_).sin_addr, static_cast<char*>(number), sizeof number);
  return fmt::format("{}:{}", static_cast<const char*>(number), ntohs(four(storage_).sin_port));
}

Expected<inspect::Descriptor> Address::listen() {
  const auto failure = [this] {
    return Status{Code::system, fmt::format("cannot listen on {}: {}", text(), std::strerror(errno))};
  };
  inspect::Descriptor socket(::socket(storage_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failure();
  const int on = 1;
  // Lets a restarted server listen before the kernel has forgotten the previous server's connections.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto* const where = reinterpret_cast<sockaddr*>(&storage_);
  if (::bind(socket.get(), where, size_) != 0 || ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), where, &size_) != 0)
    return failure();
  return socket;
}

}  // namespace holdfast::serve
