#include "inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/name.h"

namespace holdfast::inspect {

namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

int digit_of(char c) noexcept {
  const std::size_t at = kDigits.find(c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

void add_byte(std::string& to, char c) {
  const auto byte = static_cast<unsigned char>(c);
  to += kDigits[byte >> 4];
  to += kDigits[byte & 15];
}

}  // namespace

namespace {

std::string escaped(std::string_view text, std::string_view backslash) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = printable_bytes(text);
    if (bytes == 0) {
      safe += "\\x";
      add_byte(safe, text.front());
    } else if (text.front() == '\\') {
      safe += backslash;
    } else {
      safe += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return safe;
}

}  // namespace

std::string escaped(std::string_view text) { return escaped(text, "\\\\"); }

std::string without_controls(std::string_view sentence) { return escaped(sentence, "\\"); }

std::optional<std::string> unescaped(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    if (text.front() != '\\') {
      bytes += text.front();
      text.remove_prefix(1);
    } else if (text.starts_with("\\\\")) {
      bytes += '\\';
      text.remove_prefix(2);
    } else {
      constexpr std::size_t kLength = 4;  // \xHH
      const bool fits = text.size() >= kLength && text[1] == 'x' && digit_of(text[2]) >= 0 && digit_of(text[3]) >= 0;
      if (!fits) return std::nullopt;
      bytes += static_cast<char>(digit_of(text[2]) << 4 | digit_of(text[3]));
      text.remove_prefix(kLength);
    }
  }
  return bytes;
}

// Follows RFC 3629: accepts only the shortest form, and no surrogates.
bool is_utf8(std::string_view text) noexcept {
  constexpr std::array<unsigned, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead >= 0x80 && (lead < 0xC2 || lead > 0xF4)) return false;
    if (text.size() < bytes) return false;
    unsigned code = bytes == 1 ? lead : lead & (0x7FU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3FU);
    }
    if (code < kSmallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string hexadecimal(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) add_byte(digits, byte);
  return digits;
}

std::string duration_in_words(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  // A unit is used only for a count of at least 2: "119 s", but "2 min".
  constexpr std::array<std::pair<double, const char*>, 3> kUnits{{{kDay, "days"}, {kHour, "h"}, {kMinute, "min"}}};
  for (const auto& [length, name] : kUnits)
    if (seconds >= 2 * length) return fmt::format("{:.0f} {}", std::max(2.0, seconds / length - 0.5), name);
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string time_ago_in_words(double seconds) {
  const auto then = static_cast<std::time_t>(static_cast<double>(std::time(nullptr)) - seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  ::localtime_r(&then, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%F %T", &parts)};
}

std::string bytes_in_words(std::uint64_t bytes) {
  constexpr double kStep = 1024;
  auto amount = static_cast<double>(bytes);
  std::string_view units = "KMGTP";
  if (bytes < static_cast<std::uint64_t>(kStep)) return std::to_string(bytes);
  amount /= kStep;
  for (; amount >= kStep && units.size() > 1; units.remove_prefix(1)) amount /= kStep;
  constexpr double kOneDigit = 10;
  return amount < kOneDigit && amount != std::floor(amount) ? fmt::format("{:.1f}{}", amount, units.front())
                                                            : fmt::format("{:.0f}{}", amount, units.front());
}

std::string share_in_words(std::uint64_t part, std::uint64_t whole) {
  constexpr double kPercent = 100;
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", kPercent * static_cast<double>(part) / static_cast<double>(whole));
}

std::string number_in_words(double number) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (number == std::floor(number) && std::abs(number) < kExact) return fmt::format("{:.0f}", number);
  return fmt::format("{}", number);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Does not use std::from_chars: it needs libm, and loading libm takes a fortieth of the time of `holdfast lock`.
std::optional<double> number_of(const std::string& text) {
  // Accept infinity and nan, but not texts with blanks or hexadecimal digits.
  if (text.find_first_not_of("+-.0123456789eEinfatyINFATY") != std::string::npos) return std::nullopt;
  char* stopped = nullptr;
  const double number = std::strtod(text.c_str(), &stopped);
  if (stopped == text.c_str() || *stopped != '\0') return std::nullopt;
  return number;
}

std::optional<std::uint64_t> whole_number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace holdfast::inspect
