#include "cli/output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "base/name.h"
#include "cli/message.h"

namespace holdfast::cli {

namespace {

constexpr std::size_t kGap = 2;  // between columns

// Escape codes of a terminal, in the order of Style.
constexpr std::array<const char*, 6> kCodes{"", "1", "2", "31", "33", "32"};

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 0;
}

bool is_continuation(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string read_color(const std::string& when, Color& color) {
  if (when == "always") color = Color::always;
  if (when == "never") color = Color::never;
  if (when == "auto") color = Color::automatic;
  const bool known = when == "always" || when == "never" || when == "auto";
  return known ? std::string() : fmt::format("bad value {}: expected always, never or auto", quote(when));
}

Output output_for(Color color) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  Output output;
  output.columns = terminal || color == Color::always;
  output.colours = color == Color::always ||
                   (color == Color::automatic && terminal && !dumb && (no_color == nullptr || *no_color == '\0'));
  output.width = terminal ? terminal_width() : 0;
  return output;
}

std::string Output::styled(std::string_view text, Style style) const {
  if (!colours || style == Style::plain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(style)], text);
}

void say_as(std::string_view speaker, std::string_view text) {
  const std::string line = fmt::format("{}: {}\n", speaker, text);
  // A failure to write an error message cannot be reported anywhere.
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

std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string cut(const std::string& text, std::size_t width) {
  if (width_of(text) <= width || width == 0) return text;
  std::string shorter;
  std::size_t at = 0;
  for (std::size_t left = width - 1; left > 0; --left) {
    do shorter += text[at++];
    while (at < text.size() && is_continuation(text[at]));
  }
  return shorter + "…";
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

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = std::strlen(columns_[i].title);
    for (const std::vector<Cell>& row : rows_) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
  }
  return widths;
}

std::size_t Table::width() const {
  const std::vector<std::size_t> all = widths();
  return std::accumulate(all.begin(), all.end(), (all.size() - 1) * kGap);
}

// Lines are cut off at the width of the terminal.
std::string Table::for_people(const Output& output) const {
  const std::vector<std::size_t> widths = this->widths();
  std::string lines;
  const auto add = [&](std::size_t i, std::size_t& used, const std::string& whole, Style style) {
    const bool last = i + 1 == columns_.size();
    const std::size_t column = used + (i == 0 ? 0 : kGap);
    used = column + widths[i];
    if (output.width != 0 && column >= output.width) return;
    const std::string blanks(widths[i] - width_of(whole), ' ');
    const bool right = columns_[i].align == Align::right;
    const std::string gap(i == 0 ? 0 : kGap, ' ');
    const std::size_t before = right ? blanks.size() : 0;
    if (output.width != 0 && column + before >= output.width) return;
    const std::string text = output.width != 0 ? cut(whole, output.width - column - before) : whole;
    lines += gap + (right ? blanks : "") + output.styled(text, style);
    const bool fits = output.width == 0 || column + before + width_of(text) + blanks.size() <= output.width;
    if (!right && !last && fits) lines += blanks;
  };
  std::size_t used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) add(i, used, columns_[i].title, Style::bold);
  lines += "\n";
  for (const std::vector<Cell>& row : rows_) {
    used = 0;
    for (std::size_t i = 0; i < row.size(); ++i) add(i, used, row[i].text, row[i].style);
    lines += "\n";
  }
  return lines;
}

}  // namespace holdfast::cli
