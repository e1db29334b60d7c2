// Names of dictionaries: any bytes but zero. In the name of the file a byte of [A-Za-z0-9._-] stands for itself, except
// a '.' at the beginning; any other is %XX, in capitals. So each name has one file, and each such file one dictionary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Bytes of an encoded name: a file name may have 255, ".dict" included.
inline constexpr std::size_t kNameMax = 250;

/// 1 to kNameMax bytes as encode_name() writes them, none of them zero.
Status check_name(std::string_view name);

std::string encode_name(std::string_view name);
/// The inverse of encode_name(); nothing if no name that check_name() accepts is encoded so.
std::optional<std::string> decode_name(std::string_view encoded);
/// Reads every %XX as one byte; nothing if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> decode_percents(std::string_view text);

/// Bytes of the first character, if it is UTF-8 that a terminal shows and that does not move anything there; else 0.
/// REQUIRES: the text is not empty.
std::size_t printable_bytes(std::string_view text) noexcept;

/// Quotes a text for a sentence; unprintable bytes are \xXX. After `most` bytes it ends in "...".
std::string quote(std::string_view text, std::size_t most = 80);
/// The same for a name that check_name() accepts, in full.
inline std::string quote_name(std::string_view name) { return quote(name, 4 * kNameMax); }

}  // namespace holdfast
