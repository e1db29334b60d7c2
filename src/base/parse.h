// Parses texts that people write: sizes and declarations of dictionaries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Largest dictionary: with the default number of shards, an arena has at most 2^20 granules (dict/geometry.cc).
inline constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 40;
inline constexpr const char* kSizeMaxText = "1024g";
/// Size of a dictionary when the user gives none. Its memory is allocated as it is used.
inline constexpr std::uint64_t kSizeDefault = std::uint64_t{8} << 20;

/// Parses "12345", "100k", "1m", "8g": factors of 1024, either case; from 1 to kSizeMax. Error messages call the number
/// `what`.
Expected<std::uint64_t> parse_size(std::string_view text, const char* what = "size");

struct Declaration {
  std::string name;
  std::string size;  // as written, including the largest value
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;  // largest value in bytes; 0: not given
};

/// Parses "my_locks=1m" or "pages=500m:largest=200m". In the name, every %XX is one byte. Commas, '=', '%', blanks and
/// control characters must be written this way.
Expected<Declaration> parse_declaration(std::string_view text);

/// Parses a dictionary's name as parse_declaration() does.
Expected<std::string> parse_name(std::string_view written);
/// Cuts the next item of a comma-separated list from `rest`. Skips empty items; returns an empty one at the end.
std::string_view next_item(std::string_view& rest);

/// Finds the declaration of `name` in "name=size,name=size". The last one counts. not_found: it is not declared.
/// invalid: a part of the text is malformed.
Expected<Declaration> find_declaration(std::string_view declarations, std::string_view name);

}  // namespace holdfast
