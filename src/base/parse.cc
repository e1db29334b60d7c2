#include "base/parse.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/name.h"

namespace holdfast {

namespace {

/// Returns the factor of a unit, or 0 if the character is not a unit.
std::uint64_t unit_of(char c) noexcept {
  switch (c) {
    case 'k':
    case 'K':
      return std::uint64_t{1} << 10;
    case 'm':
    case 'M':
      return std::uint64_t{1} << 20;
    case 'g':
    case 'G':
      return std::uint64_t{1} << 30;
    default:
      return 0;
  }
}

// Returns whether the character must be written as %XX in a name. If it is not, it ends the name, or it is most likely
// a typo, such as the blank in "a=1m, b=1m". decode_percents() checks each '%'.
bool is_written_otherwise(char c) noexcept { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F || c == ','; }

Status bad_size(std::string_view text, const char* what) {
  return {Code::invalid, "bad " + std::string(what) + " " + quote(text) +
                             ": expected a number of bytes above 0, with an optional k, m or g"};
}

}  // namespace

Expected<std::string> parse_name(std::string_view written) {
  std::optional<std::string> name;
  if (std::none_of(written.begin(), written.end(), is_written_otherwise)) name = decode_percents(written);
  if (!name) {
    return Status{Code::invalid, "bad dictionary name " + quote(written) +
                                     " in a declaration; write blanks, control characters, \",\", \"=\" and \"%\" in "
                                     "hexadecimal, such as %20 for a blank"};
  }
  if (Status bad = check_name(*name); !bad.ok()) return bad;
  return *name;
}

std::string_view next_item(std::string_view& rest) {
  std::string_view item;
  while (item.empty() && !rest.empty()) {
    item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  }
  return item;
}

Expected<std::uint64_t> parse_size(std::string_view text, const char* what) {
  std::string_view digits = text;
  std::uint64_t unit = 1;
  if (!digits.empty() && unit_of(digits.back()) != 0) {
    unit = unit_of(digits.back());
    digits.remove_suffix(1);
  }
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || count == 0)
    return bad_size(text, what);
  if (count > kSizeMax / unit)
    return Status{Code::invalid, "bad " + std::string(what) + " " + quote(text) + ": expected at most " + kSizeMaxText};
  return count * unit;
}

Expected<Declaration> parse_declaration(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return Status{Code::invalid, "bad dictionary " + quote(text) + ": expected NAME=SIZE, as in my_locks=1m"};
  auto name = parse_name(text.substr(0, equals));
  if (!name) return name.status();
  Declaration declaration{std::move(*name), std::string(text.substr(equals + 1))};
  const std::string_view value = declaration.size;
  const std::size_t colon = value.find(':');
  const auto bytes = parse_size(value.substr(0, colon));
  if (!bytes) return bytes.status();
  declaration.bytes = *bytes;
  if (colon == std::string_view::npos) return declaration;
  constexpr std::string_view kLargest = "largest=";
  const std::string_view option = value.substr(colon + 1);
  if (option.substr(0, kLargest.size()) != kLargest)
    return Status{Code::invalid, "bad dictionary option " + quote(option) + ": expected largest=BYTES, as in " +
                                     "pages=500m:largest=200m"};
  const auto largest = parse_size(option.substr(kLargest.size()), "largest value");
  if (!largest) return largest.status();
  declaration.largest = *largest;
  return declaration;
}

Expected<Declaration> find_declaration(std::string_view declarations, std::string_view name) {
  Expected<Declaration> found = Status{Code::not_found, "no dictionary " + quote(name)};
  for (std::string_view item = next_item(declarations); !item.empty(); item = next_item(declarations)) {
    auto declaration = parse_declaration(item);
    if (!declaration) {
      return Status{Code::invalid,
                    "bad declaration " + quote(item) + " in HOLDFAST_DICTS: " + declaration.status().message};
    }
    if (declaration->name == name) found = std::move(*declaration);
  }
  return found;
}

}  // namespace holdfast
