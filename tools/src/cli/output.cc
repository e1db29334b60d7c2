#include "cli/output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/name.h"
#include "cli/message.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr std::size_t kGap = 2;  // between columns

// Escape codes of a terminal, in the order of Style.
constexpr std::array<const char*, 6> kCodes{"", "1", "2", "31", "33", "32"};

constexpr std::size_t kLeastElided = 12;  // the minimum width of an elided cell
const std::string kEllipsis = "…";

/// Removes the first character from the text, or a whole escape code of styled(). Returns the width of what it removed.
std::size_t take_width(std::string_view& text) noexcept {
  if (text.starts_with("\x1b[")) {
    text.remove_prefix(std::min(text.find('m'), text.size() - 1) + 1);
    return 0;
  }
  const int width = ::wcwidth(next_character(text));
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

/// Returns the length of the escape \xHH or \\ with which the text begins, or 0 if there is none. inspect::escaped()
/// writes these escapes.
std::size_t escaped_byte(std::string_view text) noexcept {
  if (text.starts_with("\\\\")) return 2;
  constexpr std::size_t kLength = 4;
  const auto is_digit = [&](std::size_t at) { return ::isxdigit(static_cast<unsigned char>(text[at])) != 0; };
  return text.starts_with("\\x") && text.size() >= kLength && is_digit(2) && is_digit(3) ? kLength : 0;
}

/// Removes the first unit that a terminal shows: an escaped byte, or a character with all zero-width characters after
/// it. Returns the unit's width.
std::size_t take_shown(std::string_view& text) noexcept {
  std::size_t width = escaped_byte(text);
  if (width != 0)
    text.remove_prefix(width);
  else
    width = take_width(text);
  for (std::string_view rest = text; !rest.empty() && take_width(rest) == 0;) text = rest;
  return width;
}

/// Removes the start of the text, as far as it fits into `width` columns, but at least one character. Returns the
/// removed part.
std::string take_columns(std::string_view& text, std::size_t width) {
  std::string_view rest = text;
  std::size_t bytes = 0;
  for (std::size_t used = 0; !rest.empty(); bytes = text.size() - rest.size())
    if ((used += take_shown(rest)) > width && bytes != 0) break;
  std::string taken(text.substr(0, bytes));
  text.remove_prefix(bytes);
  return taken;
}

std::string subject_of_messages;

/// Repeatedly reduces the largest width, but none below its `least`, until the sum is at most `room`.
void shrink(std::vector<std::size_t>& widths, const std::vector<std::size_t>& least, std::size_t room) {
  std::size_t sum = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  for (; sum > room; --sum) {
    std::size_t* largest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (largest == nullptr || widths[i] > *largest)) largest = &widths[i];
    if (largest == nullptr) return;
    --*largest;
  }
}

}  // namespace

std::size_t line_width(int descriptor) noexcept {
  constexpr std::uint64_t kMost = 65535;
  const char* const columns = std::getenv("COLUMNS");
  const auto wanted = inspect::whole_number_of(columns != nullptr ? columns : "");
  if (wanted && *wanted != 0) return static_cast<std::size_t>(std::min(*wanted, kMost));
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string read_color(const std::string& when, Color& color) {
  if (when == "always") color = Color::always;
  if (when == "never") color = Color::never;
  if (when == "auto") color = Color::automatic;
  const bool known = when == "always" || when == "never" || when == "auto";
  return known ? std::string() : fmt::format("bad value {}: expected always, never or auto", quote(when));
}

Output output_for(Color color, bool header) {
  std::setlocale(LC_CTYPE, "");
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  Output output;
  output.columns = terminal || header || color == Color::always;
  output.colours = color == Color::always ||
                   (color == Color::automatic && terminal && !dumb && (no_color == nullptr || *no_color == '\0'));
  output.width = output.columns ? line_width(STDOUT_FILENO) : 0;
  return output;
}

std::string Output::styled(std::string_view text, Style style) const {
  if (!colours || style == Style::plain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(style)], text);
}

void say_about(std::string subject) { subject_of_messages = std::move(subject) + ": "; }

void say_as(std::string_view speaker, std::string_view text) {
  const std::string line = fmt::format("{}: {}{}\n", speaker, subject_of_messages, text);
  // If an error message cannot be written, there is nowhere left to report it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::runtime_error(std::string("cannot write the result: ") + std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

wchar_t next_character(std::string_view& text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  unsigned code = bytes == 1 ? lead : lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes && i < text.size(); ++i)
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  text.remove_prefix(std::min(bytes, text.size()));
  return static_cast<wchar_t>(code);
}

std::size_t width_of(std::string_view text) noexcept {
  std::size_t width = 0;
  while (!text.empty()) width += take_width(text);
  return width;
}

std::string elide(std::string_view text, std::size_t width) {
  std::size_t left = width_of(text);
  if (left <= width) return std::string(text);
  if (width == 0) return {};
  std::string_view tail = text;
  while (left > width / 2) left -= take_shown(tail);
  std::string_view rest = text;
  std::size_t head = 0;  // bytes
  for (std::size_t used = take_shown(rest); used <= (width - 1) / 2; used += take_shown(rest))
    head = text.size() - rest.size();
  return std::string(text.substr(0, head)) + kEllipsis + std::string(tail);
}

std::string quote_key(std::string_view key) {
  std::string quoted = quote_whole(key);
  if (::isatty(STDERR_FILENO) == 0) return quoted;
  std::setlocale(LC_CTYPE, "");
  const std::size_t width = line_width(STDERR_FILENO);
  return width != 0 ? elide(quoted, width) : quoted;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width, LongWords long_words) {
  if (width == 0) return {std::string(text)};
  std::vector<std::string> lines{""};
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
    std::string_view word = text.substr(0, text.find(' ', blanks));
    text.remove_prefix(word.size());
    if (used != 0 && used + width_of(word) > width) {
      word.remove_prefix(blanks);
      if (word.empty()) break;
      lines.emplace_back();
      used = 0;
    }
    const std::string elided = long_words == LongWords::elided ? elide(word, width) : std::string(word);
    std::string_view rest = elided;
    for (lines.back() += take_columns(rest, width - used); !rest.empty(); lines.push_back(take_columns(rest, width)))
      continue;
    used = width_of(lines.back());
  }
  return lines;
}

std::string paragraph(std::string_view text, std::size_t width, const std::string& first, const std::string& next) {
  const std::size_t room = width == 0 ? 0 : std::max(kLeastElided, width - std::min(width, width_of(first)));
  std::string all;
  for (const std::string& line : wrapped(text, room, LongWords::elided))
    all += (all.empty() ? first : next) + line + "\n";
  return all;
}

std::string line_of(const std::vector<Part>& parts, std::size_t width) {
  std::vector<std::size_t> widths;
  std::vector<std::size_t> least;
  for (const Part& part : parts) {
    widths.push_back(width_of(part.text));
    least.push_back(part.least);
  }
  if (width != 0) shrink(widths, least, width);
  std::string line;
  for (std::size_t i = 0; i < parts.size(); ++i) line += elide(parts[i].text, widths[i]);
  return width != 0 ? elide(line, width) : line;
}

std::string Table::text(const Output& output) const {
  if (output.columns) return for_people(output);
  std::string lines;
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) lines += (i == 0 ? "" : "\t") + row[i].for_programs();
    lines += "\n";
  }
  return lines;
}

// Elides the texts of columns. If the table is still too wide, leaves out the least important columns.
std::vector<std::size_t> Table::widths(std::size_t most) const {
  std::vector<std::size_t> widths;
  std::vector<std::size_t> least;
  std::size_t needed = 0;  // the width with all columns elided
  for (const Column& column : columns_) {
    const std::size_t i = widths.size();
    std::size_t width = std::strlen(column.title);
    for (const std::vector<Cell>& row : rows_) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
    least.push_back(std::min(width, column.elides ? kLeastElided : width));
    needed += least.back() + kGap;
  }
  if (most == 0) return widths;
  std::vector<std::size_t> by_importance(columns_.size());
  std::iota(by_importance.begin(), by_importance.end(), 0);
  std::stable_sort(by_importance.begin(), by_importance.end(), [&](std::size_t one, std::size_t other) {
    return columns_[one].importance > columns_[other].importance;
  });
  for (; by_importance.size() > 1 && needed > most + kGap; by_importance.pop_back()) {
    const std::size_t i = by_importance.back();
    needed -= least[i] + kGap;
    widths[i] = least[i] = 0;
  }
  const std::size_t gaps = (by_importance.size() - 1) * kGap;
  shrink(widths, least, most - std::min(most, gaps));
  if (by_importance.size() == 1) widths[by_importance[0]] = std::min(widths[by_importance[0]], most);
  return widths;
}

std::size_t Table::width() const {
  const std::vector<std::size_t> all = widths(0);
  return std::accumulate(all.begin(), all.end(), (all.size() - 1) * kGap);
}

std::string Table::for_people(const Output& output) const {
  const std::vector<std::size_t> widths = this->widths(output.width);
  std::string lines;
  std::size_t first = 0;
  std::size_t last = widths.size();
  while (widths[first] == 0) ++first;
  while (widths[--last] == 0) continue;
  const auto add = [&](std::size_t i, const std::string& whole, Style style) {
    if (widths[i] == 0) return;
    const std::string text = elide(whole, widths[i]);
    const std::string blanks(widths[i] - width_of(text), ' ');
    const bool right = columns_[i].align == Align::right;
    lines += std::string(i == first ? 0 : kGap, ' ') + (right ? blanks : "") + output.styled(text, style);
    lines += i == last ? "\n" : right ? "" : blanks;
  };
  for (std::size_t i = 0; i < widths.size(); ++i) add(i, columns_[i].title, Style::bold);
  for (const std::vector<Cell>& row : rows_)
    for (std::size_t i = 0; i < widths.size(); ++i) add(i, row[i].text, row[i].style);
  return lines;
}

}  // namespace holdfast::cli
