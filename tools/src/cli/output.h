// Prints results: columns and colours for people; one line per item with tab-separated fields for programs.
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
  std::size_t width = 0;  // width of the terminal; 0: unlimited

  std::string styled(std::string_view text, Style style) const;
};

/// Returns the settings for standard output. $NO_COLOR turns colours off unless the user has chosen "always".
Output output_for(Color color);

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
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const noexcept { return rows_.empty(); }
  /// Returns how wide the columns for people are.
  std::size_t width() const;
  /// Returns columns with titles for people, or one line per row with tab-separated cells for programs.
  std::string text(const Output& output) const;

 private:
  std::vector<std::size_t> widths() const;
  std::string for_people(const Output& output) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Returns how many columns a printable text takes on a terminal.
std::size_t width_of(std::string_view text) noexcept;
/// Returns the text cut to `width` characters. A text that was cut ends in "…".
std::string cut(const std::string& text, std::size_t width);

}  // namespace holdfast::cli
