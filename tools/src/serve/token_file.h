// The secret that requests must send.
#pragma once

#include <string>

#include "base/status.h"

namespace holdfast::serve {

/// Reads the token without the newline after it: 16 to 512 printable characters without blanks. Returns an error with a
/// message if anyone but its owner may read or write the file.
Expected<std::string> read_token(const std::string& path);

}  // namespace holdfast::serve
