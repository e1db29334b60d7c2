#include "base/parse.h"

#include <algorithm>
#include <charconv>

namespace holdfast {

namespace {

bool is_name_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/// 0 for a letter that is no unit.
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

/// For messages: printable, and not longer than a line.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 80)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out + (text.size() > 80 ? "...\"" : "\"");
}

Status bad_declaration(std::string_view item, const std::string& why) {
  return {Code::invalid, "bad declaration " + quoted(item) + " in HOLDFAST_DICTS: " + why};
}

Status bad_size(std::string_view text) {
  return {Code::invalid,
          "bad size " + quoted(text) + ": expected a number of bytes above 0, with an optional k, m or g"};
}

}  // namespace

Expected<std::uint64_t> parse_size(std::string_view text) {
  std::string_view digits = text;
  std::uint64_t unit = 1;
  if (!digits.empty() && unit_of(digits.back()) != 0) {
    unit = unit_of(digits.back());
    digits.remove_suffix(1);
  }
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || count == 0)
    return bad_size(text);
  if (count > kSizeMax / unit) return Status{Code::invalid, "bad size " + quoted(text) + ": at most " + kSizeMaxText};
  return count * unit;
}

Status check_name(std::string_view name) {
  const std::string rule = ": expected 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with \".\"";
  if (name.empty()) return {Code::invalid, "empty dictionary name" + rule};
  if (name.size() > kNameMax)
    return {Code::invalid, "dictionary name of " + std::to_string(name.size()) + " bytes, " + quoted(name) + rule};
  if (name.front() == '.' || !std::all_of(name.begin(), name.end(), is_name_char))
    return {Code::invalid, "bad dictionary name " + quoted(name) + rule};
  return {};
}

Expected<std::uint64_t> find_declaration(std::string_view declarations, std::string_view name) {
  Expected<std::uint64_t> found = Status{Code::not_found, "no dictionary " + quoted(name)};
  while (!declarations.empty()) {
    const std::string_view item = declarations.substr(0, declarations.find(','));
    declarations.remove_prefix(std::min(declarations.size(), item.size() + 1));
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return bad_declaration(item, "expected name=size");
    const std::string_view declared = item.substr(0, equals);
    if (const Status bad = check_name(declared); !bad.ok()) return bad_declaration(item, bad.message);
    auto size = parse_size(item.substr(equals + 1));
    if (!size) return bad_declaration(item, size.status().message);
    if (declared == name) found = *size;
  }
  return found;
}

}  // namespace holdfast
