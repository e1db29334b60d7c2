// Makes the two tables of `holdfast top`: locks and dictionaries. A table consists of rows of texts that are safe to
// print, with their sort keys.
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
  const char* name;  // the name for --sort
  const char* title;
  std::size_t width;   // the maximum width, unless all columns fit with room to spare
  int importance;      // the least important columns are left out on a narrow screen
  bool right = false;  // a number; sorted from the largest
  bool grows = false;  // gets free width before other columns get more than `width`
};

struct TopCell {
  std::string text;
  double number = 0;  // the sort key in a column of numbers
  Style style = Style::plain;
  std::string plain{};  // the text for programs; empty: the same as `text`
};

struct TopRow {
  std::vector<TopCell> cells;
  std::size_t source = 0;  // the row's index in the rates
};

const std::vector<TopColumn>& columns_of(TopPane pane);
/// Returns whether the column is shown. The last column, the user, is shown only if the directories of all users are
/// shown.
bool is_shown(const TopColumn& column, const inspect::Snapshot& snapshot) noexcept;

struct TopOrder {
  std::size_t column = 0;
  bool inverted = false;
};

/// Finds the column with this name.
std::optional<std::pair<TopPane, std::size_t>> find_column(const std::string& name);
/// Returns the names of the columns in both panes: "waiters, wait, ...".
std::string names_of_columns();
/// Returns the column by which a pane is sorted initially.
std::size_t first_column_of(TopPane pane);

/// Returns the sorted rows in which a name, a key, a program or a reason contains the text, ignoring case.
std::vector<TopRow> rows_of(TopPane pane, const inspect::Snapshot& snapshot, const inspect::Rates& rates,
                            const std::string& filter, TopOrder order);
/// Returns whether one of the row's texts contains `text`, ignoring case.
bool has_text(TopPane pane, const TopRow& row, const std::string& text);

/// Returns the lines above the tables.
std::vector<std::string> head_of(const inspect::Snapshot& snapshot, const inspect::Rates& rates);
/// Returns everything that is known about one lock, line by line.
std::vector<std::string> details_of(const inspect::Snapshot& snapshot, const inspect::LockRates& lock);

/// Returns a rate in a few characters, for example "1234", "12.3" or "0.25".
std::string rate_in_words(double rate);

}  // namespace holdfast::cli
