// Parses texts that users write: sizes and declarations of dictionaries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// The maximum size of a dictionary, in bytes. With the default number of shards, an arena has at most 2^20 granules
/// (dict/geometry.cc).
inline constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 40;
inline constexpr const char* kSizeMaxText = "1024g";
/// The size of a dictionary if the user does not give one. The memory is allocated only when it is first used.
inline constexpr std::uint64_t kSizeDefault = std::uint64_t{8} << 20;

/// Parses a size such as "12345", "100k", "1m" or "8g", from 1 to kSizeMax. The units are powers of 1024, in either
/// case. `what` is the name of the number in error messages.
Expected<std::uint64_t> parse_size(std::string_view text, const char* what = "size");

struct Declaration {
  std::string name;
  std::string size;  // as written, including the option "largest"
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;  // the maximum size of a value, in bytes; 0 if not given
};

/// Parses "my_locks=1m" or "pages=500m:largest=200m". In the name, %XX stands for one byte. A comma, '=', '%', blank or
/// control character must be written as %XX.
Expected<Declaration> parse_declaration(std::string_view text);

/// Parses a dictionary's name, written as in parse_declaration().
Expected<std::string> parse_name(std::string_view written);
/// Cuts the next item from the comma-separated list in `rest` and returns it. Skips empty items. Returns an empty item
/// at the end.
std::string_view next_item(std::string_view& rest);

/// Finds the declaration of `name` in a text such as "name=size,name=size". The last declaration of a name counts.
/// Returns not_found if `name` is not declared, or invalid if a part of the text is malformed.
Expected<Declaration> find_declaration(std::string_view declarations, std::string_view name);

}  // namespace holdfast
