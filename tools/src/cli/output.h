// Prints results. People get columns and colours; programs get one line per item, with tab-separated fields. For all
// commands, this file decides which form the output has, whether it has colours, and how wide it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

enum class Color { automatic, always, never };
/// Reads the value of --color. Returns an error message for a bad word, or an empty string.
std::string read_color(const std::string& when, Color& color);

enum class Style { plain, bold, dim, red, yellow, green };

struct Output {
  bool columns = false;  // the form for people
  bool colours = false;
  std::size_t width = 0;  // the maximum width of a line with columns; 0: unlimited

  std::string styled(std::string_view text, Style style) const;
};

/// Returns the settings for standard output. A terminal gets columns; other files get columns only if `header` is set
/// or the user has chosen Color::always. $NO_COLOR turns colours off unless the user has chosen Color::always.
Output output_for(Color color, bool header = false);

/// Returns the maximum width of a line: $COLUMNS if set, otherwise the width of the terminal, or 0 if both are unknown.
std::size_t line_width(int descriptor) noexcept;

/// Writes to standard output. Ends the process without a message if nobody reads the output any more.
void print(std::string_view text);

struct Cell {
  std::string text;
  Style style = Style::plain;
  std::string plain{};  // the text for programs; empty: the same text

  Cell(std::string shown, Style as = Style::plain)  // NOLINT(google-explicit-constructor): rows are lists of texts
      : text(std::move(shown)), style(as) {}
  Cell(std::string shown, Style as, std::string for_programs)
      : text(std::move(shown)), style(as), plain(std::move(for_programs)) {}
  const std::string& for_programs() const noexcept { return plain.empty() ? text : plain; }
};

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    const char* title;
    Align align = Align::left;
    bool elides = false;  // if the table is too wide, the column's texts are elided
    int importance = 0;   // if the table is still too wide, the least important columns are left out, from the right
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const noexcept { return rows_.empty(); }
  /// Returns the total width of the columns for people.
  std::size_t width() const;
  /// Returns the table in the form that `output` selects: columns with titles, or lines of tab-separated cells.
  std::string text(const Output& output) const;

 private:
  /// Returns the widths of the columns. A column that is left out has width 0.
  std::vector<std::size_t> widths(std::size_t most) const;
  std::string for_people(const Output& output) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// --- widths ---
//
// Call std::setlocale(LC_CTYPE, "") first, as output_for() does. Otherwise, every character counts as one column.

/// Takes one UTF-8 character from the text, which must be valid and not empty.
wchar_t next_character(std::string_view& text) noexcept;
/// Returns how many columns a printable text takes on a terminal. The escape codes of Output::styled() take none.
std::size_t width_of(std::string_view text) noexcept;
/// Returns the text, shortened to at most `width` columns. If it is too long, "…" replaces its middle, but never a part
/// of an escaped byte.
std::string elide(std::string_view text, std::size_t width);
/// Quotes a key for a message on standard error. On a terminal, elides the key to at most one line.
std::string quote_key(std::string_view key);

enum class LongWords { elided, broken };
/// Breaks the text at blanks into lines of at most `width` columns (0: unlimited). Longer words are elided or broken.
std::vector<std::string> wrapped(std::string_view text, std::size_t width, LongWords long_words);
/// Returns the text as wrapped lines, each with a newline. The first line begins with `first`, the others with `next`.
std::string paragraph(std::string_view text, std::size_t width, const std::string& first = "",
                      const std::string& next = "");

/// A part of the line that line_of() makes.
struct Part {
  std::string text;
  std::size_t least = kWhole;  // the minimum width if the line is too long

  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);
};
/// Joins the parts into a line of at most `width` columns (0: unlimited). Elides the longest parts first, and then the
/// whole line.
std::string line_of(const std::vector<Part>& parts, std::size_t width);

}  // namespace holdfast::cli
