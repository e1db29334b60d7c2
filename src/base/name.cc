#include "base/name.h"

#include <algorithm>
#include <array>

namespace holdfast {

namespace {

constexpr const char* kDigits = "0123456789ABCDEF";
constexpr std::size_t kEscapeBytes = 3;  // %XX

constexpr const char* kRule =
    ": expected 1 to 250 bytes, none of them zero; bytes other than A-Z a-z 0-9 . _ - count three times, as does a "
    "leading \".\"";

bool is_plain(std::string_view name, std::size_t at) noexcept {
  const char c = name[at];
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         (c == '.' && at > 0);
}

std::size_t encoded_size(std::string_view name) noexcept {
  std::size_t size = 0;
  for (std::size_t at = 0; at < name.size(); ++at) size += is_plain(name, at) ? 1 : kEscapeBytes;
  return size;
}

void add_hexadecimal(std::string& to, char c) {
  const auto byte = static_cast<unsigned char>(c);
  to += kDigits[byte >> 4];
  to += kDigits[byte & 15];
}

/// Returns the value of a hexadecimal digit, or -1 for any other character.
int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Returns whether a non-ASCII character moves the cursor, changes the writing direction, or is invisible.
bool is_control(unsigned code) noexcept {
  return (code >= 0xD800 && code <= 0xDFFF) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xE0000 && code <= 0xE0FFF) || code > 0x10FFFF;
}

}  // namespace

Status check_name(std::string_view name) {
  if (name.empty()) return {Code::invalid, std::string("empty dictionary name") + kRule};
  if (name.find('\0') != std::string_view::npos)
    return {Code::invalid, "bad dictionary name " + quote(name) + ", with a zero byte" + kRule};
  const std::size_t size = encoded_size(name);
  if (size <= kNameMax) return {};
  const std::string as_counted = size == name.size() ? "" : ", which count as " + std::to_string(size);
  return {Code::invalid,
          "dictionary name of " + std::to_string(name.size()) + " bytes" + as_counted + ", " + quote(name) + kRule};
}

std::string encode_name(std::string_view name) {
  std::string encoded;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (is_plain(name, at)) {
      encoded += name[at];
    } else {
      encoded += '%';
      add_hexadecimal(encoded, name[at]);
    }
  }
  return encoded;
}

std::optional<std::string> decode_percents(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    if (text.size() - at < kEscapeBytes) return std::nullopt;
    const int high = digit_of(text[at + 1]);
    const int low = digit_of(text[at + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high << 4 | low);
    at += kEscapeBytes - 1;
  }
  return decoded;
}

std::optional<std::string> decode_name(std::string_view encoded) {
  auto name = decode_percents(encoded);
  if (!name || !check_name(*name).ok() || encode_name(*name) != encoded) return std::nullopt;
  return name;
}

std::size_t printable_bytes(std::string_view text) noexcept {
  // The smallest accepted code point for each number of bytes. Two-byte codes below U+00A0 are control characters.
  constexpr std::array<unsigned, 5> kSmallest{0, 0, 0xA0, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return lead >= ' ' && lead <= '~' ? 1 : 0;
  std::size_t bytes = 0;
  if (lead >= 0xC2 && lead <= 0xF4) bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (bytes == 0 || text.size() < bytes) return 0;
  unsigned code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  return code >= kSmallest[bytes] && !is_control(code) ? bytes : 0;
}

std::string quote(std::string_view text, std::size_t most) {
  std::string quoted = "\"";
  std::size_t at = 0;
  while (at < text.size() && quoted.size() <= most) {
    const std::size_t bytes = printable_bytes(text.substr(at));
    if (bytes == 0) {
      quoted += "\\x";
      add_hexadecimal(quoted, text[at]);
    }
    quoted += text.substr(at, bytes);
    at += std::max<std::size_t>(bytes, 1);
  }
  return quoted + (at < text.size() ? "...\"" : "\"");
}

}  // namespace holdfast
