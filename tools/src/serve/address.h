// The address where the server listens: "127.0.0.1:9145", "[::1]:9145".
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "inspect/descriptor.h"

namespace holdfast::serve {

class Address {
 public:
  /// Parses an IP address and a port; port 0 is any free port. "localhost" is 127.0.0.1. Refuses other names, because a
  /// name may resolve to a different address later. On failure returns an error with a message.
  static Expected<Address> parse(const std::string& text);

  /// Returns whether only programs of this machine can reach the address.
  bool is_loopback() const noexcept;
  /// Returns "127.0.0.1:9145" or "[::1]:9145".
  std::string text() const;
  /// Opens the listening socket. If the port was 0, sets it to the chosen one.
  Expected<inspect::Descriptor> listen();

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace holdfast::serve
