// The two tables of `holdfast top`: locks and dictionaries, as rows of texts that are safe to print, with what they are
// sorted by.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "inspect/rates.h"

namespace holdfast::cli {

enum class TopPane { locks, dictionaries };

struct TopColumn {
  const char* name;  // for --sort
  const char* title;
  std::size_t width;   // at most on a screen, unless there is more room than all need
  int importance;      // where the screen is narrow, the least important are left out
  bool right = false;  // a number: sorted with the largest first
  bool grows = false;  // takes what is left of the line, and its `width` before less important columns are shown
};

struct TopCell {
  std::string text;
  double number = 0;  // what it is sorted by in a column of numbers
  Style style = Style::plain;
  std::string plain{};  // for programs; empty: the text
};

struct TopRow {
  std::vector<TopCell> cells;
  std::size_t source = 0;  // its place among the rates
};

const std::vector<TopColumn>& columns_of(TopPane pane);

struct TopOrder {
  std::size_t column = 0;
  bool inverted = false;
};

/// The column with that name, and where it is.
std::optional<std::pair<TopPane, std::size_t>> find_column(const std::string& name);
/// "waiters, wait, ...": those of both panes.
std::string names_of_columns();
/// That which a pane is sorted by at first.
std::size_t first_column_of(TopPane pane);

/// Those in which a name, a key, a program or a reason has the text, whatever its case, in that order.
std::vector<TopRow> rows_of(TopPane pane, const inspect::Snapshot& snapshot, const inspect::Rates& rates,
                            const std::string& filter, TopOrder order);
/// Whether one of its texts has that text, whatever its case.
bool has_text(TopPane pane, const TopRow& row, const std::string& text);

/// What the head says, line by line.
std::vector<std::string> head_of(const inspect::Snapshot& snapshot, const inspect::Rates& rates);
/// All that is known of one lock, line by line.
std::vector<std::string> details_of(const inspect::Snapshot& snapshot, const inspect::LockRates& lock);

/// "1234", "12.3", "0.25": a rate in few characters.
std::string rate_in_words(double rate);

}  // namespace holdfast::cli
