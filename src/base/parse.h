// Texts that people write: sizes and declarations of dictionaries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// The largest dictionary: with the usual shards, an arena has at most 2^20 granules (dict/geometry.cc).
inline constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 40;
inline constexpr const char* kSizeMaxText = "1024g";
/// Of a dictionary for which nobody has asked for a size. Its memory is taken as it is used.
inline constexpr std::uint64_t kSizeDefault = std::uint64_t{8} << 20;

/// "12345", "100k", "1m", "8g": factors of 1024, either case. At least 1, at most kSizeMax. `what`: as messages call
/// it.
Expected<std::uint64_t> parse_size(std::string_view text, const char* what = "size");

struct Declaration {
  std::string name;
  std::string size;  // as written, with the largest value
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;  // bytes of the largest value; 0: as it comes
};

/// "my_locks=1m" or "pages=500m:largest=200m". In the name every %XX is a byte: write ',', '=', '%', blanks and control
/// characters so.
Expected<Declaration> parse_declaration(std::string_view text);

/// The name of a dictionary as parse_declaration() reads it.
Expected<std::string> parse_name(std::string_view written);
/// The next item of a list with commas, which is cut from `rest`. None is empty but at the end.
std::string_view next_item(std::string_view& rest);

/// The declaration of `name` in "name=size,name=size"; the last one counts. not_found: it is not declared; invalid: a
/// part of the text is malformed.
Expected<Declaration> find_declaration(std::string_view declarations, std::string_view name);

}  // namespace holdfast
