// Base64 of RFC 4648, with padding, as JSON carries bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::etcd {

std::string to_base64(std::string_view bytes);
/// Nothing if it is not base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace holdfast::etcd
