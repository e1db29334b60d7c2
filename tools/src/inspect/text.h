// Text that people read and type: keys, sizes, times, counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::inspect {

/// Returns the text with unprintable bytes as \xHH and a backslash as \\: safe on a terminal, without tabs and
/// newlines, and reversible. UTF-8 letters stay.
std::string escaped(std::string_view text);
/// The same as escaped(), except that backslashes stay: for a sentence with parts that are escaped already.
std::string without_controls(std::string_view sentence);
/// Reverses escaped(); returns nothing if a backslash is followed by anything else.
std::optional<std::string> unescaped(std::string_view text);

bool is_utf8(std::string_view text) noexcept;
std::string hexadecimal(std::string_view bytes);

/// "0.4 s", "45 s", "3 min", "5 h", "12 days".
std::string duration_in_words(double seconds);

/// "512", "12K", "1.5M", "8.0G": as ls -h.
std::string bytes_in_words(std::uint64_t bytes);

/// "97.3 %"; "-" without any.
std::string share_in_words(std::uint64_t part, std::uint64_t whole);

/// Returns a whole number without an exponent; otherwise the shortest text that reads back the same.
std::string number_in_words(double number);

/// "1 process", "3 processes".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

/// Parses the whole text as a number.
std::optional<double> number_of(const std::string& text);
/// The same for a number without sign and fraction.
std::optional<std::uint64_t> whole_number_of(std::string_view text);

}  // namespace holdfast::inspect
