// Names of dictionaries. A name is any bytes but zero ones. In the name of its file each byte stands for itself if it
// is of [A-Za-z0-9._-] and no '.' at the beginning, else it is %XX, in capitals: each name has one file, and each file
// that has such a name one dictionary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Bytes of a name as its file has it: 255 that the name of a file may have, without ".dict".
inline constexpr std::size_t kNameMax = 250;

/// 1 to kNameMax bytes as encode_name() writes them, none of them zero.
Status check_name(std::string_view name);

std::string encode_name(std::string_view name);
/// The name of which encode_name() makes `encoded`; nothing if there is none that check_name() accepts.
std::optional<std::string> decode_name(std::string_view encoded);
/// Every %XX read as one byte, whatever byte it is; nothing where two hexadecimal digits are missing behind a '%'.
std::optional<std::string> decode_percents(std::string_view text);

/// For sentences, in double quotes: what cannot be printed is \xXX. What does not fit into `most` bytes is "...".
std::string quote(std::string_view text, std::size_t most = 80);
/// The same of a name that check_name() accepts, in full.
inline std::string quote_name(std::string_view name) { return quote(name, 4 * kNameMax); }

}  // namespace holdfast
