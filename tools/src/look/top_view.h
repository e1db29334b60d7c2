// The state of `holdfast top` that the user has chosen, and the functions by which keys change it. They do not depend
// on the terminal.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "look/top_pace.h"
#include "look/top_request.h"
#include "look/top_rows.h"

namespace holdfast::cli {

enum class TopKey {
  none,
  up,
  down,
  page_up,
  page_down,
  home,
  end,
  enter,
  escape,
  backspace,
  tab,
  help,
  search,
  filter,
  next_column,
  previous_column,
  quit,
  text
};

class TopView {
 public:
  enum class Shows { rows, help, details };
  enum class Prompt { none, search, filter, request };

  TopPane pane = TopPane::locks;
  std::array<TopOrder, 2> orders{};
  std::string filter;

  explicit TopView(TopPace pace);
  const TopPace& pace() const noexcept { return pace_; }
  TopOrder& order() noexcept { return orders[static_cast<std::size_t>(pane)]; }

  /// Takes a new snapshot, and computes rows from this snapshot and the previous one.
  void show(inspect::Snapshot now);
  /// Handles a key. `typed`: the characters of TopKey::text, in UTF-8. `page`: the number of rows that fit. Returns
  /// false to quit.
  bool press(TopKey key, const std::string& typed, std::size_t page);
  /// Scrolls so that `page` rows are visible, including the chosen row.
  void fit(std::size_t page);
  /// Scrolls a text of which `page` lines are visible. Returns the number of the first visible line.
  std::size_t fit_text(std::size_t lines, std::size_t page);

  const inspect::Snapshot& snapshot() const noexcept { return now_; }
  const inspect::Rates& rates() const noexcept { return rates_; }
  const std::vector<TopRow>& rows() const noexcept { return rows_; }
  std::size_t selected() const noexcept { return selected_; }
  std::size_t first() const noexcept { return first_; }
  bool paused() const noexcept { return paused_; }
  Shows shows() const noexcept { return shows_; }
  Prompt prompt() const noexcept { return prompt_; }
  const std::string& typed() const noexcept { return typed_; }
  /// Returns the question for Prompt::request, in at most `width` columns.
  std::string question(std::size_t width) const;
  /// Returns the request that the user has confirmed since the last call.
  std::optional<TopRequest> take_confirmed() { return std::exchange(confirmed_, std::nullopt); }
  /// Returns a message for the user, which remains until the next key.
  const std::string& remark() const noexcept { return remark_; }
  void set_remark(std::string remark) { remark_ = std::move(remark); }
  /// Returns the details of the chosen lock, or a message if the lock is gone.
  std::vector<std::string> details() const;

 private:
  void arrange();
  void act(TopKey key, const std::string& typed);
  void press_letter(const std::string& letter);
  void press_in_prompt(TopKey key, const std::string& typed);
  void edit(TopKey key, const std::string& typed);
  void begin(Prompt prompt);
  void ask(int signal);
  void answer(TopKey key, const std::string& typed);
  void find_from(std::size_t row);
  void change_column(bool forward);
  void open_details();
  void show_text(Shows what) { shows_ = what, first_line_ = 0; }

  TopPace pace_;
  inspect::Snapshot before_;
  inspect::Snapshot now_;
  bool has_seen_ = false;
  inspect::Rates rates_;
  std::vector<TopRow> rows_;
  std::size_t selected_ = 0;
  std::size_t first_ = 0;
  std::size_t first_line_ = 0;  // the number of a text's first visible line
  bool paused_ = false;
  Shows shows_ = Shows::rows;
  Prompt prompt_ = Prompt::none;
  std::string typed_;
  TopRequest request_;
  std::optional<TopRequest> confirmed_;
  std::string remark_;
  std::tuple<std::string, std::string, std::string> chosen_;  // the chosen lock's user, dictionary and key
};

}  // namespace holdfast::cli
