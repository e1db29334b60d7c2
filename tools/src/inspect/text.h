// Converts texts that people read and type: keys, sizes, times, counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::inspect {

/// Returns the text with unprintable bytes as \xHH and a backslash as \\. The result is safe on a terminal, has no tabs
/// or newlines, and can be converted back. Does not change printable UTF-8 characters.
std::string escaped(std::string_view text);
/// Does the same as escaped() but keeps backslashes. Use this for a sentence with parts that are already escaped.
std::string without_controls(std::string_view sentence);
/// Reverses escaped(). Returns nothing if the text contains a backslash that escaped() would not have written.
std::optional<std::string> unescaped(std::string_view text);

bool is_utf8(std::string_view text) noexcept;
std::string hexadecimal(std::string_view bytes);

/// Returns a text such as "0.4 s", "45 s", "3 min", "5 h" or "12 days".
std::string duration_in_words(double seconds);

/// Returns the local time `seconds` ago, for example "2026-11-28 14:03:12".
std::string time_ago_in_words(double seconds);

/// Returns a text such as "512", "12K", "1.5M" or "8.0G", as printed by ls -h.
std::string bytes_in_words(std::uint64_t bytes);

/// Returns a text such as "97.3 %", or "-" if `whole` is 0.
std::string share_in_words(std::uint64_t part, std::uint64_t whole);

/// Returns integers without an exponent, and other numbers as the shortest text that reads back as the same number.
std::string number_in_words(double number);

/// Returns a text such as "1 process" or "3 processes".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

/// Parses the whole text as a number.
std::optional<double> number_of(const std::string& text);
/// Parses the whole text as an unsigned integer.
std::optional<std::uint64_t> whole_number_of(std::string_view text);

}  // namespace holdfast::inspect
