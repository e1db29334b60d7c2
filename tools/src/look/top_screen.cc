#include "look/top_screen.h"

#define NCURSES_NOMACROS 1
#include <curses.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/output.h"
#include "lock/stuck_terminal.h"

// The terminal header defines macros whose names are used here.
#undef lines
#undef columns
#undef tab

namespace holdfast::cli {

namespace {

constexpr int kLowScreen = 9;  // screens with fewer lines have no head
constexpr std::size_t kHead = 4;
constexpr std::size_t kGap = 1;

const char* const kHelp[] = {
    "Up Down PgUp PgDn Home End   move",
    "Enter                        details of a lock",
    "Tab                          switch between locks and dictionaries",
    "r                            release the selected lock, after confirmation",
    "k                            signal its holder, after confirmation",
    "F3 /                         search; F3 again: next match",
    "F4 \\                         filter",
    "Esc                          clear the filter",
    "F6 > and <                   sort by the next or previous column",
    "I                            reverse the order",
    "Space p                      pause",
    "+ -                          refresh less often, more often",
    "F1 h ?                       this help",
    "F10 q Ctrl-C                 quit",
    "",
    "CONT: waits and refusals per second for a key.",
    "LOADS: calls to the loaders of caches per second.",
    "JOBS: jobs of a queue that no worker has seen yet.",
    "~LOCKS: locks released per second, an estimate.",
    "P50, P99: median and 99th percentile of the waits that ended in the last interval.",
};

/// A text from escaped(), converted for the locale and elided to a number of terminal columns.
struct Shown {
  std::wstring text;
  std::size_t width = 0;
};

Shown shown(std::string_view text, std::size_t most) {
  const std::string elided = elide(text, most);
  Shown result{{}, width_of(elided)};
  for (std::string_view rest = elided; !rest.empty();) {
    const wchar_t character = next_character(rest);
    const bool is_known = ::wcwidth(character) >= 0;
    result.text += is_known ? character : character == L'…' ? L'~' : L'?';
  }
  return result;
}

std::string to_utf8(wint_t typed) {
  const auto code = static_cast<unsigned>(typed);
  const auto part = [&](unsigned shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), part(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), part(6), part(0)};
  return {static_cast<char>(0xF0 | code >> 18), part(12), part(6), part(0)};
}

TopKey key_of_function(wint_t code) {
  constexpr std::array<std::pair<wint_t, TopKey>, 13> kKeys{{{KEY_UP, TopKey::up},
                                                             {KEY_DOWN, TopKey::down},
                                                             {KEY_PPAGE, TopKey::page_up},
                                                             {KEY_NPAGE, TopKey::page_down},
                                                             {KEY_HOME, TopKey::home},
                                                             {KEY_END, TopKey::end},
                                                             {KEY_ENTER, TopKey::enter},
                                                             {KEY_BACKSPACE, TopKey::backspace},
                                                             {KEY_F(1), TopKey::help},
                                                             {KEY_F(3), TopKey::search},
                                                             {KEY_F(4), TopKey::filter},
                                                             {KEY_F(6), TopKey::next_column},
                                                             {KEY_F(10), TopKey::quit}}};
  for (const auto& [function, key] : kKeys)
    if (function == code) return key;
  return TopKey::none;
}

TopKey key_of_character(wint_t code) {
  constexpr wint_t kCtrlC = 3;
  constexpr wint_t kDelete = 127;
  if (code == L'\n' || code == L'\r') return TopKey::enter;
  if (code == L'\t') return TopKey::tab;
  if (code == L'\b' || code == kDelete) return TopKey::backspace;
  if (code == L'\x1b') return TopKey::escape;
  if (code == kCtrlC) return TopKey::quit;
  return code >= L' ' && !(code >= kDelete && code < 0xA0) ? TopKey::text : TopKey::none;
}

/// Returns the width that each column needs for its title (with the sort mark) and its texts. A column that is not
/// shown has width 0.
std::vector<std::size_t> needs_of(TopView& view) {
  const std::vector<TopColumn>& columns = columns_of(view.pane);
  std::vector<std::size_t> needs;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t need = std::strlen(columns[i].title) + (view.order().column == i ? 1 : 0);
    for (const TopRow& row : view.rows()) need = std::max(need, width_of(row.cells[i].text));
    needs.push_back(is_shown(columns[i], view.snapshot()) ? need : 0);
  }
  return needs;
}

/// Gives the remaining width of the line to columns whose texts would be elided: first to the growing columns,
/// beginning with the narrowest, and then to the others. If no column needs the width, the first growing column gets
/// it, so that numbers are at the right edge.
void share(std::size_t left, const std::vector<TopColumn>& columns, const std::vector<std::size_t>& needs,
           std::vector<std::size_t>& widths) {
  const auto narrowest = [&](bool grows) {
    std::size_t found = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool is_elided = columns[i].grows == grows && widths[i] != 0 && widths[i] < needs[i];
      if (is_elided && (found == columns.size() || widths[i] < widths[found])) found = i;
    }
    return found;
  };
  for (const bool grows : {true, false})
    for (std::size_t i = narrowest(grows); left > 0 && i < columns.size(); i = narrowest(grows), --left) ++widths[i];
  for (std::size_t i = 0; i < columns.size() && left > 0; ++i)
    if (columns[i].grows && widths[i] != 0) widths[i] += std::exchange(left, 0);
}

/// Returns the width of each column that fits. A column that is left out has width 0.
std::vector<std::size_t> widths_of(TopView& view, std::size_t width) {
  const std::vector<TopColumn>& columns = columns_of(view.pane);
  const std::vector<std::size_t> needs = needs_of(view);
  std::vector<std::size_t> widths;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(std::min(columns[i].width, needs[i]));
    if (needs[i] != 0) sum += widths.back() + kGap;
  }
  while (sum > width + kGap) {
    std::size_t least = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (widths[i] != 0 && (least == columns.size() || columns[i].importance < columns[least].importance)) least = i;
    if (least == columns.size() || widths[least] == sum - kGap) break;  // at least one column remains, and is truncated
    sum -= widths[least] + kGap;
    widths[least] = 0;
  }
  share(width + kGap - std::min(sum, width + kGap), columns, needs, widths);
  return widths;
}

}  // namespace

struct TopScreen::Parts {
  termios before{};
  SCREEN* screen = nullptr;
  bool colours = false;
  int ended_by = 0;
  std::vector<std::string> messages;  // shown in the lines above the titles

  static std::size_t width() { return static_cast<std::size_t>(std::max(COLS, 1)); }
  static int height() { return std::max(LINES, 1); }
  /// Returns the number of rows above the titles.
  std::size_t head() const { return (height() < kLowScreen ? 0 : kHead) + messages.size(); }

  attr_t attribute(Style style) const {
    const auto pair = [&](int number, attr_t otherwise) {
      return colours ? static_cast<attr_t>(COLOR_PAIR(number)) : otherwise;
    };
    switch (style) {
      case Style::bold:
        return A_BOLD;
      case Style::red:
        return pair(1, A_BOLD);
      case Style::yellow:
        return pair(2, A_BOLD);
      case Style::green:
        return pair(3, A_NORMAL);
      case Style::dim:
        return A_DIM;
      case Style::plain:
        break;
    }
    return A_NORMAL;
  }

  static void put(int row, std::size_t column, std::string_view text, std::size_t width, bool right,
                  attr_t attributes) {
    const Shown what = shown(text, width);
    const std::wstring blanks(width - std::min(width, what.width), L' ');
    const std::wstring all = right ? blanks + what.text : what.text + blanks;
    ::attrset(static_cast<int>(attributes));
    ::mvaddnwstr(row, static_cast<int>(column), all.data(), static_cast<int>(all.size()));
    ::attrset(A_NORMAL);
  }

  static void put_line(int row, std::string_view text, attr_t attributes) {
    put(row, 0, text, width(), false, attributes);
  }

  void choose_lines(const std::vector<std::string>& wanted);
  void draw_head(const TopView& view) const;
  void draw_titles(TopView& view, int row, const std::vector<std::size_t>& widths) const;
  void draw_rows(TopView& view, int row) const;
  static void draw_texts(TopView& view, const std::vector<std::string>& texts);
  static void draw_foot(const TopView& view);
};

/// Shows the first message in full if the screen is tall enough, otherwise in one line.
void TopScreen::Parts::choose_lines(const std::vector<std::string>& wanted) {
  constexpr std::size_t kShare = 6;  // the messages get at most a sixth of the screen
  messages.clear();
  if (wanted.empty()) return;
  const std::size_t more = wanted.size() - 1;
  const Part others{more != 0 ? fmt::format(" (and {} more: \"holdfast doctor\" lists them all)", more) : ""};
  messages = wrapped(wanted.front() + others.text, width(), LongWords::broken);
  if (messages.size() > static_cast<std::size_t>(height()) / kShare)
    messages = {line_of({{wanted.front(), 1}, others}, width())};
}

void TopScreen::Parts::draw_head(const TopView& view) const {
  int row = static_cast<int>(head() - messages.size());
  for (const std::string& message : messages) put_line(row++, message, attribute(Style::red));
  if (height() < kLowScreen) return;
  row = 0;
  for (const std::string& line : head_of(view.snapshot(), view.rates())) put_line(row++, line, A_NORMAL);
  put(0, 0, "holdfast top: " + head_of(view.snapshot(), view.rates()).front(), width(), false, attribute(Style::bold));
  const char* const pane = view.pane == TopPane::locks ? "[Locks] Dictionaries" : "Locks [Dictionaries]";
  std::string line = fmt::format("{}  every {} s", pane, std::round(view.pace().delay() * 10) / 10);
  if (view.paused()) line += "  PAUSED";
  if (!view.filter.empty()) line += "  filter: " + view.filter;
  put_line(row, line, attribute(view.paused() ? Style::yellow : Style::green));
}

void TopScreen::Parts::draw_titles(TopView& view, int row, const std::vector<std::size_t>& widths) const {
  const std::vector<TopColumn>& titles = columns_of(view.pane);
  std::size_t at = 0;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    if (widths[i] == 0) continue;
    const bool sorted = view.order().column == i;
    const std::string title =
        sorted ? fmt::format("{}{}", titles[i].title, view.order().inverted ? '^' : 'v') : titles[i].title;
    put(row, at, title, widths[i], titles[i].right, A_REVERSE | (sorted ? A_BOLD : A_NORMAL));
    at += widths[i] + kGap;
  }
}

void TopScreen::Parts::draw_rows(TopView& view, int row) const {
  const std::vector<TopColumn>& titles = columns_of(view.pane);
  const std::vector<std::size_t> widths = widths_of(view, width());
  if (row > 0) draw_titles(view, row - 1, widths);
  const int bottom = height() > 1 ? height() - 1 : 1;
  for (std::size_t i = view.first(); i < view.rows().size() && row < bottom; ++i, ++row) {
    const bool selected = i == view.selected();
    if (selected) put_line(row, "", A_REVERSE);
    std::size_t at = 0;
    for (std::size_t c = 0; c < titles.size(); ++c) {
      if (widths[c] == 0) continue;
      const TopCell& cell = view.rows()[i].cells[c];
      put(row, at, cell.text, widths[c], titles[c].right,
          selected ? static_cast<attr_t>(A_REVERSE) : attribute(cell.style));
      at += widths[c] + kGap;
    }
  }
  if (view.rows().empty() && row < bottom)
    put_line(row, view.pane == TopPane::locks ? "no locks are held or waited for" : "no dictionaries", A_NORMAL);
}

void TopScreen::Parts::draw_texts(TopView& view, const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts)
    for (std::string& line : wrapped(text, width(), LongWords::broken)) lines.push_back(std::move(line));
  const auto rows = static_cast<std::size_t>(std::max(1, height() - 1));
  const std::size_t first = view.fit_text(lines.size(), rows);
  for (std::size_t i = 0; i < rows && first + i < lines.size(); ++i)
    put_line(static_cast<int>(i), lines[first + i], A_NORMAL);
}

void TopScreen::Parts::draw_foot(const TopView& view) {
  if (height() < 2) return;
  std::string line = view.pane == TopPane::locks
                         ? "F1 Help F3 Search F4 Filter F6 Sort Tab Pane r Release k Signal p Pause q Quit"
                         : "F1 Help F3 Search F4 Filter F6 Sort I Invert Tab Pane p Pause q Quit";
  if (view.shows() != TopView::Shows::rows) line = "Arrows scroll, other keys go back";
  if (!view.remark().empty()) line = view.remark();
  if (view.prompt() == TopView::Prompt::search) line = "Search: " + view.typed();
  if (view.prompt() == TopView::Prompt::filter) line = "Filter: " + view.typed();
  if (view.prompt() == TopView::Prompt::request) line = view.question(width());
  put_line(height() - 1, line, A_REVERSE);
}

TopScreen::TopScreen(bool colours) : parts_(std::make_unique<Parts>()) {
  constexpr int kEscapeMilliseconds = 50;
  const char* const term = std::getenv("TERM");
  if (::tcgetattr(STDIN_FILENO, &parts_->before) != 0) throw std::runtime_error("cannot read the terminal's modes");
  parts_->screen = ::newterm(nullptr, stdout, stdin);
  const bool moves = parts_->screen != nullptr && ::tigetstr(const_cast<char*>("cup")) != nullptr;
  if (!moves) {
    if (parts_->screen != nullptr) ::endwin();
    throw std::runtime_error(
        fmt::format("cannot draw on a terminal of type {}; set TERM, for example to xterm, or use --batch",
                    quote(term != nullptr ? term : "")));
  }
  parts_->colours = colours && ::has_colors();
  if (parts_->colours) {
    ::start_color();
    ::use_default_colors();
    constexpr std::array<short, 3> kColours{COLOR_RED, COLOR_YELLOW, COLOR_GREEN};
    for (short i = 0; i < 3; ++i) ::init_pair(static_cast<short>(i + 1), kColours[static_cast<std::size_t>(i)], -1);
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(kEscapeMilliseconds);
}

// If the terminal is gone or was stopped by Ctrl-S, it accepts no output, and endwin would block forever.
TopScreen::~TopScreen() {
  const StuckTerminal stuck(parts_->before, parts_->ended_by);
  if (terminal_takes_output()) ::endwin();
  ::tcsetattr(STDIN_FILENO, TCSANOW, &parts_->before);
}

std::size_t TopScreen::page() const noexcept {
  const auto used = static_cast<int>(parts_->head()) + (Parts::height() >= 3 ? 2 : 1);
  return static_cast<std::size_t>(std::max(1, Parts::height() - used));
}

void TopScreen::draw(TopView& view, const std::vector<std::string>& messages) {
  if (!terminal_takes_output()) return;
  const StuckTerminal stuck(parts_->before);
  parts_->choose_lines(messages);
  view.fit(page());
  ::erase();
  if (view.shows() == TopView::Shows::help) {
    Parts::draw_texts(view, {std::begin(kHelp), std::end(kHelp)});
  } else if (view.shows() == TopView::Shows::details) {
    Parts::draw_texts(view, view.details());
  } else {
    parts_->draw_head(view);
    parts_->draw_rows(view, static_cast<int>(parts_->head()) + (Parts::height() >= 3 ? 1 : 0));
  }
  Parts::draw_foot(view);
  ::refresh();
}

bool TopScreen::read(TopPress& press) {
  wint_t code = 0;
  const StuckTerminal stuck(parts_->before);  // reading a key first writes pending output, which may block
  const int kind = ::get_wch(&code);
  if (kind == ERR) return false;
  press.key = kind == KEY_CODE_YES ? key_of_function(code) : key_of_character(code);
  press.text = press.key == TopKey::text ? to_utf8(code) : "";
  return true;
}

void TopScreen::resize() {
  winsize size{};
  const std::size_t width = line_width(STDOUT_FILENO);
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || width == 0) return;
  ::resizeterm(size.ws_row, static_cast<int>(width));
  ::clearok(curscr, TRUE);
}

void TopScreen::leave() {
  ::def_prog_mode();
  const StuckTerminal stuck(parts_->before);
  if (terminal_takes_output()) ::endwin();
  ::tcsetattr(STDIN_FILENO, TCSANOW, &parts_->before);
}

void TopScreen::come_back() {
  ::reset_prog_mode();
  resize();
  ::clearok(curscr, TRUE);
}

void TopScreen::end_by(int signal) noexcept { parts_->ended_by = signal; }

}  // namespace holdfast::cli
