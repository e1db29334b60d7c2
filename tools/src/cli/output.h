// Prints results: columns and colours for people; one line per item with tab-separated fields for programs. All
// commands decide here which form the output has, whether it has colours, and how wide it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

enum class Color { automatic, always, never };
/// Returns an error message for a bad word, or an empty string.
std::string read_color(const std::string& when, Color& color);

enum class Style { plain, bold, dim, red, yellow, green };

struct Output {
  bool columns = false;  // for people
  bool colours = false;
  std::size_t width = 0;  // of a line with columns; 0: unlimited

  std::string styled(std::string_view text, Style style) const;
};

/// Returns the settings for standard output. A terminal gets columns; other files get columns if `header` is set or the
/// user has chosen Color::always. $NO_COLOR turns colours off unless the user has chosen Color::always.
Output output_for(Color color, bool header = false);

/// Returns how wide the user's lines are: $COLUMNS, or else the width of the terminal; 0 if neither is known.
std::size_t line_width(int descriptor) noexcept;

/// Writes to standard output. Ends the process silently if the reader is gone.
void print(std::string_view text);

struct Cell {
  std::string text;
  Style style = Style::plain;
  std::string plain{};  // for programs; empty: the same text

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
    bool elides = false;  // its texts are elided if the table is too wide
    int importance = 0;   // the least important columns are left out if that does not suffice, the last first
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const noexcept { return rows_.empty(); }
  /// Returns how wide the columns for people are.
  std::size_t width() const;
  /// Returns columns with titles for people, or one line per row with tab-separated cells for programs.
  std::string text(const Output& output) const;

 private:
  /// Returns the widths of the columns; 0 for those that are left out.
  std::vector<std::size_t> widths(std::size_t most) const;
  std::string for_people(const Output& output) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// --- widths. Call std::setlocale(LC_CTYPE, "") first, as output_for() does; otherwise each character counts as one.
// ---

/// Takes one UTF-8 character from the text, which must be valid and not empty.
wchar_t next_character(std::string_view& text) noexcept;
/// Returns how many columns a printable text takes on a terminal. Output::styled() adds none.
std::size_t width_of(std::string_view text) noexcept;
/// Returns the text in at most `width` columns. If it is too long, "…" replaces its middle. An escaped byte is not
/// divided.
std::string elide(std::string_view text, std::size_t width);
/// Quotes a key for a message on standard error: in full, but on a terminal in at most a line.
std::string quote_key(std::string_view key);

enum class LongWords { elided, broken };
/// Breaks the text at blanks into lines of at most `width` columns (0: unlimited). Longer words are elided or broken.
std::vector<std::string> wrapped(std::string_view text, std::size_t width, LongWords long_words);
/// Returns wrapped lines with a newline after each. The first begins with `first`, the others with `next`.
std::string paragraph(std::string_view text, std::size_t width, const std::string& first = "",
                      const std::string& next = "");

/// A part of a line.
struct Part {
  std::string text;
  std::size_t least = kWhole;  // the columns that remain if the line is too long

  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);
};
/// Joins the parts to a line of at most `width` columns (0: unlimited). Elides the longest parts first, then the line.
std::string line_of(const std::vector<Part>& parts, std::size_t width);

}  // namespace holdfast::cli
