// The secret that requests have to bring.
#pragma once

#include <string>

#include "base/status.h"

namespace holdfast::serve {

/// The token in that file, without the newline behind it: 16 to 512 printable characters without blanks. Refused, with
/// a sentence, if others than its owner may read or write the file.
Expected<std::string> read_token(const std::string& path);

}  // namespace holdfast::serve
