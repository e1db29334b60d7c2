// Parses the parts of an HTTP/1.0 or 1.1 request that a read-only server needs: the request line and four fields.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::serve {

/// The maximum size of a request in bytes, up to the empty line that ends its fields.
inline constexpr std::size_t kRequestMax = 8192;

struct Request {
  std::string method;
  std::string path;  // without the query, %XX decoded
  std::string host;  // the host in a target "http://HOST/PATH", otherwise the Host field
  std::string authorization;
  std::string accept;
};

/// Returns whether the empty line has arrived.
bool is_complete(std::string_view received) noexcept;
/// Parses a request. Returns nothing if it is invalid or ambiguous, for example because it has two Host fields.
std::optional<Request> parse_request(std::string_view received);

/// Returns whether a Host field names the loopback: localhost, 127.x.x.x or [::1], with any port. This prevents DNS
/// rebinding, in which a page reads our data under a different name that resolves to 127.0.0.1.
bool names_loopback(std::string_view host) noexcept;

/// Returns whether an Authorization field contains this token. The time that this takes does not depend on how much of
/// the token is right.
bool is_authorized(std::string_view authorization, std::string_view token) noexcept;

}  // namespace holdfast::serve
