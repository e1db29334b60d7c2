// Names of dictionaries and their file names. A name may contain any byte but zero. In the file name, a byte of
// [A-Za-z0-9._-] stands for itself, except a leading '.'; any other byte is %XX in capitals. So each name has exactly
// one file, and each such file one dictionary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Longest encoded name in bytes: a file name may have 255, including ".dict".
inline constexpr std::size_t kNameMax = 250;

/// Checks that the name has no zero byte and that encode_name() makes it 1 to kNameMax bytes.
Status check_name(std::string_view name);

std::string encode_name(std::string_view name);
/// The inverse of encode_name(); empty if `encoded` is not the encoding of a valid name.
std::optional<std::string> decode_name(std::string_view encoded);
/// Reads every %XX as one byte; empty if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> decode_percents(std::string_view text);

/// Returns the length of the first character if it is UTF-8 that a terminal displays without moving the cursor; else 0.
/// REQUIRES: the text is not empty.
std::size_t printable_bytes(std::string_view text) noexcept;

/// Quotes a text for a message. Unprintable bytes become \xXX. After `most` bytes it ends in "...".
std::string quote(std::string_view text, std::size_t most = 80);
/// The same for a valid dictionary name, in full.
inline std::string quote_name(std::string_view name) { return quote(name, 4 * kNameMax); }

}  // namespace holdfast
