// The names of dictionaries, and the file names made from them. A name may contain any byte but zero. In the file name,
// bytes of [A-Za-z0-9._-] are unchanged, except for a leading '.'. All other bytes become %XX with capital digits. So
// each name has exactly one file name, and each such file name stands for one dictionary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// The maximum length of an encoded name, in bytes. A file name may have 255 bytes, and five of them are ".dict".
inline constexpr std::size_t kNameMax = 250;

/// Checks that the name has no zero byte, and that its encoding has 1 to kNameMax bytes.
Status check_name(std::string_view name);

std::string encode_name(std::string_view name);
/// Reverses encode_name(). Returns nothing if `encoded` is not the encoding of a valid name.
std::optional<std::string> decode_name(std::string_view encoded);
/// Decodes every %XX to one byte. Returns nothing if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> decode_percents(std::string_view text);

/// Returns the length, in bytes, of the first character if it is valid UTF-8 and safe to print on a terminal; otherwise
/// returns 0. REQUIRES: the text is not empty.
std::size_t printable_bytes(std::string_view text) noexcept;

/// Quotes a text for a message, and writes unprintable bytes as \xXX. If the result is longer than `most` bytes,
/// truncates it and adds "...".
std::string quote(std::string_view text, std::size_t most = 80);
/// Quotes the whole text.
inline std::string quote_whole(std::string_view text) { return quote(text, static_cast<std::size_t>(-1)); }
/// Quotes a valid dictionary name in full.
inline std::string quote_name(std::string_view name) { return quote(name, 4 * kNameMax); }

}  // namespace holdfast
