// The address at which the server listens, for example "127.0.0.1:9145" or "[::1]:9145".
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "inspect/descriptor.h"

namespace holdfast::serve {

class Address {
 public:
  /// Parses an IP address and a port. Port 0 means any free port, and "localhost" means 127.0.0.1. Refuses other names,
  /// because a name may resolve to a different address later. On failure, returns an error with a message.
  static Expected<Address> parse(const std::string& text);

  /// Returns whether only programs on this machine can reach the address.
  bool is_loopback() const noexcept;
  /// Returns "127.0.0.1:9145" or "[::1]:9145".
  std::string text() const;
  /// Opens the listening socket. If the port is 0, replaces it by the port that the kernel has chosen.
  Expected<inspect::Descriptor> listen();

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace holdfast::serve
