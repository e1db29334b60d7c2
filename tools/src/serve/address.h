// Where the server listens: "127.0.0.1:9145", "[::1]:9145".
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "inspect/descriptor.h"

namespace holdfast::serve {

class Address {
 public:
  /// A number and a port; 0 is any port that is free. "localhost" is 127.0.0.1. No other names: what a name resolves
  /// to may change. A status with a sentence.
  static Expected<Address> parse(const std::string& text);

  /// Only programs of this machine reach it.
  bool is_loopback() const noexcept;
  /// "127.0.0.1:9145", "[::1]:9145".
  std::string text() const;
  /// The socket listens. Then the port is the one that was chosen.
  Expected<inspect::Descriptor> listen();

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace holdfast::serve
