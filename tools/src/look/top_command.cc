#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <optional>
#include <set>
#include <utility>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "inspect/dictionaries.h"
#include "inspect/snapshots.h"
#include "inspect/text.h"
#include "inspect/world.h"
#include "look/top_json.h"
#include "look/top_live.h"
#include "look/top_view.h"

namespace holdfast::cli {

namespace {

struct TopOptions {
  std::optional<double> delay;
  std::optional<std::string> column;
  std::string filter;
  bool batch = false;
  std::uint64_t count = 0;  // 0: unlimited
};

void add_options(Arguments& arguments, TopOptions& wanted) {
  arguments.add_value("-d,--delay", "SECONDS",
                      "Refresh every SECONDS; default: 2, or longer to stay within 1 % of a core",
                      [&](const std::string& text) {
                        const auto seconds = inspect::number_of(text);
                        if (!seconds || !(*seconds >= kShortestDelay && *seconds <= kLongestDelay))
                          return fmt::format("bad time {}: expected seconds from {:g} to {:g}, as in 0.5", quote(text),
                                             kShortestDelay, kLongestDelay);
                        wanted.delay = *seconds;
                        return std::string();
                      });
  arguments.add_value("-s,--sort", "COLUMN", "Sort by this column; default: waiters for locks, reads for dictionaries",
                      [&](const std::string& text) {
                        wanted.column = text;
                        if (find_column(text)) return std::string();
                        return fmt::format("bad column {}: expected one of {}", quote(text), names_of_columns());
                      });
  arguments.add_value("--filter", "TEXT", "Show only rows with TEXT in their name, key, holder or reason",
                      wanted.filter);
  arguments.add_flag("-b,--batch", wanted.batch, "Print text; the default unless standard output is a terminal");
  arguments.add_number("-n,--count", "COUNT", "With --batch: exit after COUNT refreshes", wanted.count, {.least = 1});
}

// --- batch ---

std::string time_in_words() {
  constexpr std::size_t kRoom = 32;
  char text[kRoom];
  const std::time_t now = std::time(nullptr);
  tm parts{};
  ::gmtime_r(&now, &parts);
  return {static_cast<const char*>(text), std::strftime(static_cast<char*>(text), kRoom, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string world_line(const TopView& view) {
  const inspect::Snapshot& seen = view.snapshot();
  const inspect::Rates& rates = view.rates();
  return fmt::format("world\t{}\t{}\t{:.3f}\t{}\t{}\t{}\t{:.2f}\t{:.2f}\t{:.2f}\t{}\t{}\n", time_in_words(),
                     inspect::escaped(seen.directory), rates.seconds, seen.processes, seen.dictionaries.size(),
                     seen.locks.size(), rates.reads, rates.grants, rates.waits, seen.room_free, seen.room_whole);
}

void print_for_programs(TopView& view) {
  std::string text = world_line(view);
  for (const TopPane pane : {TopPane::locks, TopPane::dictionaries}) {
    const TopOrder order = view.orders[static_cast<std::size_t>(pane)];
    for (const TopRow& row : rows_of(pane, view.snapshot(), view.rates(), view.filter, order)) {
      text += pane == TopPane::locks ? "lock" : "dictionary";
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const TopCell& cell = row.cells[i];
        if (is_shown(columns_of(pane)[i], view.snapshot()))
          text += "\t" + (cell.plain.empty() ? cell.text : cell.plain);
      }
      text += "\n";
    }
  }
  print(text);
}

void print_for_people(TopView& view, const Output& output) {
  std::string text;
  for (const std::string& line : head_of(view.snapshot(), view.rates())) text += line + "\n";
  for (const TopPane pane : {TopPane::locks, TopPane::dictionaries}) {
    std::vector<Table::Column> titles;
    const std::vector<TopColumn>& columns = columns_of(pane);
    for (const TopColumn& column : columns)
      if (is_shown(column, view.snapshot()))
        titles.push_back(
            {column.title, column.right ? Table::Align::right : Table::Align::left, column.grows, column.importance});
    Table table(std::move(titles));
    const TopOrder order = view.orders[static_cast<std::size_t>(pane)];
    for (const TopRow& row : rows_of(pane, view.snapshot(), view.rates(), view.filter, order)) {
      std::vector<Cell> cells;
      for (std::size_t i = 0; i < columns.size(); ++i)
        if (is_shown(columns[i], view.snapshot())) cells.emplace_back(row.cells[i].text, row.cells[i].style);
      table.add(std::move(cells));
    }
    if (!table.empty()) text += "\n" + table.text(output);
  }
  print(text + "\n");
}

void pause(double seconds) {
  constexpr double kNano = 1e9;
  const double whole = std::floor(seconds);
  timespec time{static_cast<std::time_t>(whole), static_cast<long>((seconds - whole) * kNano)};
  while (::nanosleep(&time, &time) != 0) continue;
}

int run_batch(TopView& view, const TakeSnapshot& take, const TopOptions& wanted, const WorldOptions& world) {
  const Output output = world.output();
  std::set<std::string> said;
  int status = exit_status::kYes;
  for (std::uint64_t refreshes = 0; wanted.count == 0 || refreshes <= wanted.count; ++refreshes) {
    if (refreshes != 0) pause(view.pace().delay());
    view.show(value_or_fail(take()));
    for (const std::string& trouble : view.snapshot().troubles())
      if (said.insert(trouble).second) say("{}", trouble);
    if (view.snapshot().is_in_trouble()) status = exit_status::kTrouble;
    if (refreshes == 0) continue;
    if (world.json())
      print_json(to_json(view), output);
    else
      output.columns ? print_for_people(view, output) : print_for_programs(view);
  }
  return status;
}

int run_on_terminal([[maybe_unused]] TopView& view, [[maybe_unused]] const TakeSnapshot& take,
                    [[maybe_unused]] const Output& output) {
#ifdef HOLDFAST_TOP
  return run_top_live(view, take, output.colours);
#else
  fail("this holdfast was built without ncurses; use --batch");
#endif
}

/// Ends the command if a named dictionary does not exist.
void require(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto dict = inspect::attach(name);
    if (!dict && dict.status().code == Code::not_found) fail("{}", dict.status().message);
  }
}

/// Chooses the directories that the command shows. Ends the command if it cannot show anything.
TakeSnapshot choose(WorldOptions& world, const std::vector<std::string>& names) {
  if (!world.shows_all()) {
    const std::string directory = world.observe_if_used(names).value_or(inspect::directory_to_be());
    require(names);
    return [directory, names, hidden = world.hidden()] {
      auto taken = inspect::take_snapshot(directory, names);
      if (taken) taken->hidden = hidden;
      return taken;
    };
  }
  world.apply();
  inspect::Snapshots all;
  const inspect::Snapshot first = all.take(names);
  for (const std::string& name : names)
    if (std::none_of(first.dictionaries.begin(), first.dictionaries.end(),
                     [&](const inspect::DictionaryLook& look) { return look.name == name; }))
      fail("there is no dictionary {} in any runtime directory", quote_name(name));
  if (!first.is_used) say("{}", inspect::kUnusedYet);
  return [all, names]() mutable { return Expected<inspect::Snapshot>(all.take(names)); };
}

int run_top(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  TopOptions wanted;
  add_options(arguments, wanted);
  arguments.parse(0, HOLDFAST_KEY_MAX, {"NAME"});
  const bool batch = wanted.batch || ::isatty(STDOUT_FILENO) == 0;
  if (wanted.count != 0 && !batch) arguments.refuse("--count needs --batch");
  if (world.json() && !batch) arguments.refuse("--json needs --batch");
  if (!batch && ::isatty(STDIN_FILENO) == 0) arguments.refuse("standard input is not a terminal; use --batch");
  const TakeSnapshot take = choose(world, arguments.words());
  TopView view{TopPace(wanted.delay)};
  view.filter = wanted.filter;
  if (wanted.column) {
    const auto [pane, column] = *find_column(*wanted.column);
    view.pane = pane;
    view.order().column = column;
  }
  if (batch) return run_batch(view, take, wanted, world);
  return run_on_terminal(view, take, world.output());
}

}  // namespace

const Subcommand kTop{
    "top",
    "Monitor locks and rates in a full-screen display",
    "[NAME...]",
    "Monitor a runtime directory: its locks with their holders and waiters, and how often its dictionaries are used.",
    R"(On a terminal, top fills the screen: r releases the selected lock and k signals its holder; both ask
for confirmation. F1 shows all keys, q quits. Elsewhere, or with --batch, it repeatedly prints the
locks and the dictionaries. Each line begins with "world", "lock" or "dictionary" and has
tab-separated fields; with --json, each refresh is one object. holdfast(1) describes the fields.
Root gets the directories of all users, with the user in an extra column, unless a directory or user
is named.)",
    run_top};

}  // namespace holdfast::cli
