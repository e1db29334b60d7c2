// How results are printed: columns and colours for people, a line with tabs for each item where a program reads them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

enum class Color { automatic, always, never };
/// Nothing, or what is wrong with the word.
std::string read_color(const std::string& when, Color& color);

enum class Style { plain, bold, dim, red, yellow, green };

struct Output {
  bool columns = false;  // for people
  bool colours = false;
  std::size_t width = 0;  // of the terminal; 0: no limit

  std::string styled(std::string_view text, Style style) const;
};

/// For standard output. $NO_COLOR takes the colours away, unless they are wanted always.
Output output_for(Color color);

/// Writes it to standard output. Ends the process quietly if nobody reads any more.
void print(std::string_view text);

struct Cell {
  std::string text;
  Style style = Style::plain;
  std::string plain{};  // where a program reads it; empty: the text

  Cell(std::string shown, Style as = Style::plain)  // NOLINT(google-explicit-constructor): a row is a list of texts
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
  /// With titles for people; for programs a line for each row, its cells parted by tabs.
  std::string text(const Output& output) const;

 private:
  std::string for_people(const Output& output) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Characters that the text takes on a terminal, if it is printable.
std::size_t width_of(std::string_view text) noexcept;
/// The text, cut to so many characters, of which the last is "…" then.
std::string cut(const std::string& text, std::size_t width);

}  // namespace holdfast::cli
