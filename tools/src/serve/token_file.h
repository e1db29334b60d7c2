// Reads the secret that requests must send.
#pragma once

#include <string>

#include "base/status.h"

namespace holdfast::serve {

/// Reads the token without its trailing newline: 16 to 512 printable characters without blanks. Returns an error with a
/// message if anyone except the file's owner may read or write the file.
Expected<std::string> read_token(const std::string& path);

}  // namespace holdfast::serve
