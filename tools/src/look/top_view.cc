#include "look/top_view.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <tuple>
#include <utility>

#include "base/name.h"
#include "cli/output.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

/// Returns the processor time used by this process, and by the processes that have read runtime directories for it.
double used_seconds() {
  constexpr double kMicro = 1e-6;
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  const auto micros = static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC + seconds + kMicro * micros;
}

/// Moves the position if the key is a movement key. Returns whether it is a movement key. The new position may be
/// beyond the end.
bool moved(TopKey key, std::size_t& at, std::size_t page) {
  constexpr std::size_t kEnd = std::size_t{1} << 32;
  const std::size_t step = std::max<std::size_t>(page, 1);
  switch (key) {
    case TopKey::up:
      at -= std::min<std::size_t>(at, 1);
      return true;
    case TopKey::down:
      ++at;
      return true;
    case TopKey::page_up:
      at -= std::min(at, step);
      return true;
    case TopKey::page_down:
      at += step;
      return true;
    case TopKey::home:
      at = 0;
      return true;
    case TopKey::end:
      at = kEnd;
      return true;
    default:
      return false;
  }
}

/// Returns why the request is not possible, or an empty string if it is possible.
std::string objection_to(const TopRequest& request) {
  const std::string who = inspect::in_words(request.holder);
  if (request.signal == TopRequest::kNoSignal)
    return request.grant.sequence == 0
               ? fmt::format("cannot release {}: {} is still taking it", quote_whole(request.key), who)
               : "";
  if (!request.holder.is_there()) return fmt::format("cannot signal {}: it no longer exists", who);
  if (request.holder.pid_here == 0) return fmt::format("cannot signal {}: it is not in this pid namespace", who);
  return {};
}

}  // namespace

TopView::TopView(TopPace pace) : pace_(pace) {
  pace_.note_look(used_seconds());  // excludes the cost of starting
  for (const TopPane each : {TopPane::locks, TopPane::dictionaries})
    orders[static_cast<std::size_t>(each)].column = first_column_of(each);
}

void TopView::show(inspect::Snapshot now) {
  pace_.note_look(used_seconds());
  before_ = has_seen_ ? std::move(now_) : now;
  now_ = std::move(now);
  has_seen_ = true;
  rates_ = inspect::rates_of(before_, now_);
  arrange();
}

void TopView::arrange() {
  const std::string& text = prompt_ == Prompt::filter ? typed_ : filter;
  rows_ = rows_of(pane, now_, rates_, text, order());
  selected_ = std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1);
}

void TopView::fit(std::size_t page) {
  if (selected_ < first_) first_ = selected_;
  if (page != 0 && selected_ >= first_ + page) first_ = selected_ - page + 1;
  first_ = std::min(first_, rows_.size() > page ? rows_.size() - page : 0);
}

std::size_t TopView::fit_text(std::size_t lines, std::size_t page) {
  first_line_ = std::min(first_line_, lines > page ? lines - page : 0);
  return first_line_;
}

bool TopView::press(TopKey key, const std::string& typed, std::size_t page) {
  if (key != TopKey::none) remark_.clear();
  if (prompt_ != Prompt::none) {
    if (key == TopKey::quit) return false;
    press_in_prompt(key, typed);
    return true;
  }
  const bool quits = key == TopKey::quit || (key == TopKey::text && typed == "q");
  if (shows_ != Shows::rows && key != TopKey::none) {
    const bool moves = moved(key, first_line_, page);
    if (!moves) shows_ = Shows::rows;
    return moves || key != TopKey::quit;
  }
  if (quits) return false;
  if (moved(key, selected_, page)) selected_ = std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1);
  act(key, typed);
  return true;
}

void TopView::act(TopKey key, const std::string& typed) {
  switch (key) {
    case TopKey::help:
      show_text(Shows::help);
      break;
    case TopKey::search:
      begin(Prompt::search);
      break;
    case TopKey::filter:
      begin(Prompt::filter);
      break;
    case TopKey::next_column:
      change_column(true);
      break;
    case TopKey::previous_column:
      change_column(false);
      break;
    case TopKey::tab:
      pane = pane == TopPane::locks ? TopPane::dictionaries : TopPane::locks;
      selected_ = first_ = 0;
      arrange();
      break;
    case TopKey::enter:
      open_details();
      break;
    case TopKey::escape:  // does not quit, because on a slow line the first byte of an arrow key may arrive alone
      filter.clear();
      arrange();
      break;
    case TopKey::text:
      press_letter(typed);
      break;
    default:
      break;
  }
}

void TopView::press_letter(const std::string& letter) {
  constexpr double kStep = 2;
  if (letter == "?" || letter == "h") act(TopKey::help, "");
  if (letter == "/") act(TopKey::search, "");
  if (letter == "\\") act(TopKey::filter, "");
  if (letter == ">") act(TopKey::next_column, "");
  if (letter == "<") act(TopKey::previous_column, "");
  if (letter == " " || letter == "p") paused_ = !paused_;
  if (letter == "r") ask(TopRequest::kNoSignal);
  if (letter == "k") ask(SIGTERM);
  if (letter == "+") pace_.stretch(kStep);
  if (letter == "-") pace_.stretch(1 / kStep);
  if (letter != "I") return;
  order().inverted = !order().inverted;
  arrange();
}

void TopView::begin(Prompt prompt) {
  prompt_ = prompt;
  typed_ = prompt == Prompt::filter ? filter : "";
}

void TopView::ask(int signal) {
  if (pane != TopPane::locks || rows_.empty()) return;
  const inspect::LockRates& row = rates_.locks[rows_[selected_].source];
  // The directory's user may have forged the pids, so only a process with this user's rights can use them safely.
  if (!row.user.empty()) {
    remark_ = fmt::format("to release this lock or signal its holder, run: holdfast top --user {}",
                          inspect::escaped(row.user));
    return;
  }
  if (row.lock == nullptr || row.lock->holders.empty()) {
    remark_ = fmt::format("no process is known to hold {}", quote_whole(row.key));
    return;
  }
  const holdfast_holder& holder = row.lock->holders.front();
  request_ = {row.dictionary,         row.key, {holder.owner, holder.sequence}, now_.user(*row.lock, holder.owner),
              row.lock->holder_count, signal};
  // A stopped process would not react to any signal except CONT and KILL until it is continued.
  if (signal != TopRequest::kNoSignal && request_.holder.life == inspect::Life::stopped) request_.signal = SIGCONT;
  remark_ = objection_to(request_);
  if (remark_.empty()) prompt_ = Prompt::request;
}

std::string TopView::question(std::size_t width) const {
  constexpr std::size_t kLeastKey = 8;
  const std::string who = inspect::in_words(request_.holder);
  const Part key{inspect::escaped(request_.key), kLeastKey};
  const std::string others = request_.holder_count > 1 ? fmt::format(", one of {}", request_.holder_count) : "";
  if (request_.signal == TopRequest::kNoSignal)
    return line_of(
        {{"Release "}, key, {fmt::format(" of {}, token {}{}? [y/N]", who, request_.grant.sequence, others)}}, width);
  return line_of({{fmt::format("Send {} to {}, holder of ", name_of_signal(request_.signal), who)},
                  key,
                  {fmt::format("{}? [y/N, k: {}]", others, name_of_signal(signal_after(request_.signal)))}},
                 width);
}

void TopView::answer(TopKey key, const std::string& typed) {
  if (key == TopKey::none) return;
  const bool changes = key == TopKey::text && typed == "k" && request_.signal != TopRequest::kNoSignal;
  if (changes) {
    request_.signal = signal_after(request_.signal);
    return;
  }
  prompt_ = Prompt::none;
  if (key == TopKey::text && (typed == "y" || typed == "Y")) confirmed_ = request_;
}

// Searches again after each character. Escape restores the view without a filter.
void TopView::press_in_prompt(TopKey key, const std::string& typed) {
  if (prompt_ == Prompt::request) return answer(key, typed);
  if (key == TopKey::enter || key == TopKey::escape) {
    if (prompt_ == Prompt::filter) filter = key == TopKey::enter ? typed_ : "";
    prompt_ = Prompt::none;
    arrange();
    return;
  }
  if (key == TopKey::search && prompt_ == Prompt::search) {
    find_from(selected_ + 1);
    return;
  }
  edit(key, typed);
  if (prompt_ == Prompt::search) find_from(selected_);
  if (prompt_ == Prompt::filter) arrange();
}

void TopView::edit(TopKey key, const std::string& typed) {
  constexpr std::size_t kMost = 256;
  if (key == TopKey::text && typed_.size() + typed.size() <= kMost) typed_ += typed;
  if (key != TopKey::backspace) return;
  while (!typed_.empty()) {  // removes a whole character
    const auto last = static_cast<unsigned char>(typed_.back());
    typed_.pop_back();
    if ((last & 0xC0) != 0x80) break;
  }
}

void TopView::find_from(std::size_t row) {
  if (typed_.empty()) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::size_t at = (row + i) % rows_.size();
    if (!has_text(pane, rows_[at], typed_)) continue;
    selected_ = at;
    return;
  }
}

void TopView::change_column(bool forward) {
  const std::size_t count = columns_of(pane).size();
  order().column = (order().column + (forward ? 1 : count - 1)) % count;
  arrange();
}

void TopView::open_details() {
  if (pane != TopPane::locks || rows_.empty()) return;
  const inspect::LockRates& lock = rates_.locks[rows_[selected_].source];
  chosen_ = {lock.user, lock.dictionary, lock.key};
  show_text(Shows::details);
}

std::vector<std::string> TopView::details() const {
  for (const inspect::LockRates& lock : rates_.locks)
    if (std::tie(lock.user, lock.dictionary, lock.key) == chosen_) return details_of(now_, lock);
  return {"it is no longer held or waited for"};
}

}  // namespace holdfast::cli
