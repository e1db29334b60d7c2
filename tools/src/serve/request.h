// A request of HTTP/1.0 or 1.1, as far as a server of pages to look at needs it: its line and four fields.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::serve {

/// Bytes of a request, up to the empty line that ends its fields.
inline constexpr std::size_t kRequestMax = 8192;

struct Request {
  std::string method;
  std::string path;  // without the query; %XX are bytes
  std::string host;  // of a target "http://HOST/PATH", or else the field
  std::string authorization;
  std::string accept;
};

/// Whether the empty line has come.
bool is_complete(std::string_view received) noexcept;
/// Nothing if it is none, or has two Host fields, or anything else that could be read in two ways.
std::optional<Request> parse_request(std::string_view received);

/// Whether a Host field names this machine as loopback does: localhost, 127.x.x.x or [::1], with any port. A page of
/// another name that resolves to 127.0.0.1 cannot read what is here (DNS rebinding).
bool names_loopback(std::string_view host) noexcept;

/// Whether an Authorization field has that token. The time does not tell how much of it is right.
bool is_authorized(std::string_view authorization, std::string_view token) noexcept;

}  // namespace holdfast::serve
