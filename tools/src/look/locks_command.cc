#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "inspect/ancestors.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/text.h"
#include "inspect/waits.h"
#include "inspect/world.h"
#include "look/cells.h"

namespace holdfast::cli {

namespace {

using inspect::Lock;
using inspect::Process;
using inspect::Processes;

/// The default for --max. People cannot read more locks, and programs can ask for more.
constexpr std::size_t kMostByDefault = 10000;

struct Wanted {
  bool waiting = false;
  bool wide = false;
  std::string prefix;
  std::size_t max = kMostByDefault;
};

struct SeenLocks {
  std::string directory;
  bool is_used = true;             // whether any program has used the directory
  std::vector<std::string> names;  // the requested dictionaries that exist
  std::vector<Lock> locks;
  Processes processes;
  inspect::Ancestors ancestors;       // the ancestors of the waiters
  std::set<std::string> in_clusters;  // dictionaries whose locks other machines may hold
  bool in_trouble = false;
};

Status gather(const std::string& name, const Wanted& wanted, SeenLocks& seen) {
  auto dict = inspect::attach(name);
  if (!dict) return dict.status();
  holdfast_cluster cluster{};
  const int state = holdfast_cluster_state(*dict, &cluster);
  if (state == HOLDFAST_OK || state == HOLDFAST_UNAVAILABLE) seen.in_clusters.insert(name);
  const auto which = wanted.waiting ? inspect::Which::waited_for : inspect::Which::all;
  return inspect::gather_locks(*dict, name, wanted.prefix, which, wanted.max, seen.locks);
}

SeenLocks gather_locks_of(WorldOptions& world, const std::vector<std::string>& asked, const Wanted& wanted) {
  SeenLocks seen;
  const auto observed = world.observe_if_used(asked);
  seen.directory = observed.value_or(inspect::directory_to_be());
  seen.is_used = observed.has_value();
  if (!seen.is_used) return seen;
  const std::vector<std::string>& names = seen.names = world.names_in(seen.directory, asked);
  if (names.empty() && !asked.empty()) return seen;
  seen.processes = value_or_fail(Processes::read());
  const std::vector<std::string> all = value_or_fail(inspect::named_dictionaries(seen.directory));
  for (const std::string& name : names.empty() ? all : names) {
    const Status gathered = gather(name, wanted, seen);
    const bool is_gone = inspect::is_gone(seen.directory, name, static_cast<int>(gathered.code));
    if (gathered.ok() || (names.empty() && is_gone)) continue;
    seen.in_trouble = true;
    say("{}", gathered.code == Code::not_found ? gathered.message : quote_name(name) + ": " + gathered.message);
  }
  inspect::drop_dead_waiters(seen.locks, seen.processes);
  if (wanted.waiting) std::erase_if(seen.locks, [](const Lock& lock) { return lock.waiter_count == 0; });
  seen.ancestors = inspect::ancestors_of_waiters(seen.locks, seen.processes);
  if (seen.locks.size() >= wanted.max) say("showing only {} locks; use --max to show more", wanted.max);
  return seen;
}

// --- columns ---

std::string end_in_words(const holdfast_holder& holder) {
  return holder.remaining > 0 ? "in " + inspect::duration_in_words(holder.remaining) : "never";
}

std::vector<Cell> row_of(const Lock& lock, const holdfast_holder* holder, Processes& processes) {
  const std::string waiters = std::to_string(lock.waiter_count);
  const Style waited_for = lock.waiter_count != 0 ? Style::yellow : Style::plain;
  std::vector<Cell> row;
  row.reserve(9);
  row.emplace_back(inspect::escaped(lock.dictionary));
  row.emplace_back(inspect::escaped(lock.key), Style::bold);
  if (holder == nullptr) {
    const std::string why = or_dash(inspect::escaped(lock.trouble));
    row.emplace_back("-", Style::plain, "-\t-");
    row.emplace_back("-");
    row.insert(row.end(), {Cell("-", Style::plain, "-\t-\t-\t-"), Cell("-"), Cell("-"), Cell(waiters, waited_for),
                           Cell(why, Style::red)});
    return row;
  }
  const Process& process = processes.of(holder->owner);
  const std::string why = inspect::escaped(static_cast<const char*>(holder->why));
  const std::string share = inspect::share_in_words(*holder);
  const std::string kind = inspect::kind_in_words(lock);
  row.emplace_back(kind == share ? kind : kind + ", " + share, Style::plain, fmt::format("{}\t{}", kind, share));
  row.emplace_back(inspect::token_in_words(*holder));
  row.emplace_back(inspect::in_words(process), style_of(process),
                   fmt::format("{}\t{}\t{}\t{}", process.shown_pid(), or_dash(inspect::escaped(process.program)),
                               or_dash(inspect::escaped(process.host)), inspect::life_in_words(process.life)));
  row.emplace_back(inspect::duration_in_words(holder->held), Style::plain, fmt::format("{:.3f}", holder->held));
  row.emplace_back(end_in_words(*holder), Style::plain,
                   holder->remaining > 0 ? fmt::format("{:.3f}", holder->remaining) : "-");
  row.emplace_back(waiters, waited_for);
  row.emplace_back(why, Style::plain, or_dash(why));
  return row;
}

std::vector<std::vector<Cell>> rows_of(SeenLocks& seen) {
  std::vector<std::vector<Cell>> rows;
  for (const Lock& lock : seen.locks) {
    if (lock.holders.empty()) rows.push_back(row_of(lock, nullptr, seen.processes));
    for (const holdfast_holder& holder : lock.holders) rows.push_back(row_of(lock, &holder, seen.processes));
  }
  return rows;
}

void print_table(std::vector<Shown> all, const WorldOptions& world, const Output& output) {
  using Align = Table::Align;
  constexpr std::ptrdiff_t kToken = 3;
  std::vector<Table::Column> columns{
      {"DICTIONARY", Align::left, false, 4}, {"KEY", Align::left, true, 9},       {"KIND", Align::left, false, 1},
      {"TOKEN", Align::right, false, 2},     {"HOLDER", Align::left, false, 8},   {"HELD FOR", Align::left, false, 3},
      {"ENDS", Align::left, false, 1},       {"WAITERS", Align::right, false, 7}, {"WHY", Align::left, true, 6}};
  Table table = table_of(columns, all, world.shows_all(), output);
  const bool has_room = !output.columns || output.width == 0 || table.width() <= output.width;
  if (!has_room) {
    columns.erase(columns.begin() + kToken);
    for (Shown& one : all)
      for (std::vector<Cell>& row : one.rows) row.erase(row.begin() + kToken);
    table = table_of(columns, all, world.shows_all(), output);
  }
  if (!table.empty())
    print(table.text(output));
  else if (output.columns)
    print("no locks are held or waited for\n");
}

// --- the tree of waits ---

/// Returns the branches of the tree that are drawn to the left of a line, or to the left of its continuation on the
/// terminal's next line.
std::string branches(const inspect::WaitLine& line, const Output& output, bool continues = false) {
  std::string text;
  for (std::size_t i = 1; i <= line.depth; ++i) {
    if (!output.columns)
      text += "  ";
    else if (i == line.depth && !continues)
      text += line.has_more(i) ? "├─ " : "└─ ";
    else
      text += line.has_more(i) ? "│  " : "   ";
  }
  return text;
}

std::string lock_in_words(const Lock& lock, SeenLocks& seen, const Output& output) {
  std::string text = inspect::escaped(lock.dictionary) + " " + output.styled(inspect::escaped(lock.key), Style::bold);
  if (!lock.trouble.empty()) return text + ": " + lock.trouble;
  if (lock.holders.empty() && seen.in_clusters.contains(lock.dictionary))
    return text + " is not held on this machine: \"holdfast cluster holders\" shows which machine holds it";
  if (lock.holders.empty()) return text + " is not held";
  const holdfast_holder& first = lock.holders.front();
  const Process& process = seen.processes.of(first.owner);
  text += " has been held by " + output.styled(inspect::in_words(process), style_of(process)) +
          inspect::comma_after(process);
  if (lock.holder_count > 1) text += fmt::format(" and {} more", lock.holder_count - 1);
  text += " for " + inspect::duration_in_words(first.held);
  if (first.why[0] != '\0') text += ": " + inspect::escaped(static_cast<const char*>(first.why));
  return text;
}

/// Returns a text such as "4712, 4713, 4714, …".
std::string pids_in_words(const inspect::WaitLine& line, SeenLocks& seen) {
  constexpr std::size_t kShown = 3;
  std::set<std::uint32_t> pids{seen.processes.of(line.waiter->owner).shown_pid()};
  for (const holdfast_waiter* const waiter : line.equal) pids.insert(seen.processes.of(waiter->owner).shown_pid());
  const bool is_cut = pids.size() > kShown;
  if (is_cut) pids.erase(std::next(pids.begin(), kShown), pids.end());
  return fmt::format("{}{}", fmt::join(pids, ", "), is_cut ? ", …" : "");
}

std::string waiters_in_words(const inspect::WaitLine& line, SeenLocks& seen, const Output& output) {
  const Process process = seen.processes.of(line.waiter->owner);
  double longest = line.waiter->waited;
  for (const holdfast_waiter* const waiter : line.equal) longest = std::max(longest, waiter->waited);
  std::string who =
      fmt::format("{} × {} (pid {})", line.equal.size() + 1,
                  process.program.empty() ? "?" : inspect::escaped(process.program), pids_in_words(line, seen));
  if (!process.host.empty()) who += " on " + inspect::escaped(process.host);
  if (process.life == inspect::Life::stopped) who += fmt::format(", {},", inspect::life_in_words(process.life));
  const std::uint32_t parent = inspect::parent_that_holds(line.waiter->owner, seen.ancestors, seen.processes);
  return fmt::format("{}{} {}, the longest for {}", output.styled(who, style_of(process)),
                     parent != 0 ? fmt::format(", children of pid {},", parent) : "",
                     line.waiter->watches != 0 ? "have watched" : "have waited", inspect::duration_in_words(longest));
}

std::string waiter_in_words(const inspect::WaitLine& line, SeenLocks& seen, const Output& output) {
  if (!line.equal.empty()) return waiters_in_words(line, seen, output);
  const holdfast_waiter& waiter = *line.waiter;
  const Process& process = seen.processes.of(waiter.owner);
  const std::uint32_t parent = inspect::parent_that_holds(waiter.owner, seen.ancestors, seen.processes);
  return fmt::format("{}{} {} for {}", output.styled(inspect::in_words(process), style_of(process)),
                     parent != 0 ? fmt::format(", child of pid {},", parent) : inspect::comma_after(process),
                     waiter.watches != 0 ? "has watched" : "has waited", inspect::duration_in_words(waiter.waited));
}

std::string ring_in_words(const inspect::WaitLine& line, const Output& output) {
  if (line.count == 1) return output.styled("a command waits for its child, which waits for the command:", Style::red);
  if (line.is_certain)
    return output.styled(fmt::format("{} commands wait for each other, so none can proceed:", line.count), Style::red);
  return output.styled(fmt::format("{} processes wait for each other, unless other tasks proceed:", line.count),
                       Style::yellow);
}

std::string left_out_in_words(const inspect::WaitLine& line, const Output& output) {
  std::string text = "and " + inspect::counted(line.count, "more waiter", "more waiters");
  if (line.lock == nullptr) text += line.depth != 0 ? " further down" : ": --json shows all";
  if (line.has_circle) text += output.styled(" (some of them wait for each other)", Style::red);
  return text;
}

std::string line_in_words(const inspect::WaitLine& line, SeenLocks& seen, const Output& output) {
  switch (line.what) {
    case inspect::WaitLine::What::ring:
      return ring_in_words(line, output);
    case inspect::WaitLine::What::lock:
      return lock_in_words(*line.lock, seen, output);
    case inspect::WaitLine::What::waiter:
      return waiter_in_words(line, seen, output);
    case inspect::WaitLine::What::left_out:
      return left_out_in_words(line, output);
    case inspect::WaitLine::What::circle:
      break;
  }
  return inspect::escaped(line.lock->dictionary) + " " + inspect::escaped(line.lock->key) +
         output.styled(" (see above: they wait for each other)", Style::red);
}

/// Returns the kind of the waiter. Waiters of the same program, in the same state and with the same parent command,
/// share a line.
std::string kind_of(const holdfast_waiter& waiter, SeenLocks& seen) {
  const Process& process = seen.processes.of(waiter.owner);
  return fmt::format("{}\n{}\n{} {} {}", process.program, process.host, static_cast<int>(process.life), waiter.watches,
                     inspect::parent_that_holds(waiter.owner, seen.ancestors, seen.processes));
}

std::string tree_of(SeenLocks& seen, const Output& output) {
  std::string text;
  const auto kind = [&](const holdfast_waiter& waiter) { return kind_of(waiter, seen); };
  for (const inspect::WaitLine& line : inspect::lines_of_waits(seen.locks, seen.ancestors, kind))
    text += paragraph(line_in_words(line, seen, output), output.width, branches(line, output),
                      branches(line, output, true));
  return text;
}

void print_trees(const std::vector<Shown>& all, const WorldOptions& world, const Output& output) {
  std::string text;
  for (const Shown& one : all) {
    if (one.text.empty()) continue;
    if (world.shows_all()) text += fmt::format("user {}:\n", inspect::escaped(one.user));
    text += one.text;
  }
  if (text.empty() && output.columns) text = "no process waits\n";
  print(text);
}

Shown show(SeenLocks& seen, const Wanted& wanted, bool as_json, const Output& output) {
  Shown shown{.directory = seen.directory, .is_used = seen.is_used, .names = seen.names};
  if (as_json)
    for (const Lock& lock : seen.locks) shown.items.push_back(inspect::to_json(lock, seen.processes, seen.ancestors));
  else if (wanted.waiting)
    shown.text = tree_of(seen, output);
  else
    shown.rows = rows_of(seen);
  if (seen.in_trouble) shown.status = exit_status::kTrouble;
  return shown;
}

int run_locks(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  Wanted wanted;
  arguments.add_flag("-w,--waiting", wanted.waiting,
                     "Show only contended locks, as trees: which process waits for which");
  arguments.add_flag("--wide", wanted.wide, "Show tokens, and do not shorten the columns to fit the terminal");
  arguments.add_value("--prefix", "TEXT", "Show only keys that begin with TEXT", wanted.prefix);
  arguments.add_number("--max", "N", "Show at most N keys; default: 10000", wanted.max, {.least = 1});
  arguments.parse(0, HOLDFAST_KEY_MAX, {"NAME"});
  Output output = world.output();
  if (wanted.wide) output.width = 0;
  const std::vector<Shown> all = world.look(kSecondsEach, [&] {
    SeenLocks seen = gather_locks_of(world, arguments.words(), wanted);
    return show(seen, wanted, world.json(), output);
  });
  const std::vector<std::string> missing = missing_names(arguments.words(), all);
  if (world.json())
    print_json(json_of(all, "locks", world.shows_all()), output);
  else if (is_any_used(all) && wanted.waiting)
    print_trees(all, world, output);
  else if (is_any_used(all))
    print_table(all, world, output);
  world.print_rest(all);
  for (const std::string& message : missing) say("{}", message);
  return missing.empty() ? report_troubles(all) : exit_status::kTrouble;
}

}  // namespace

const Subcommand kLocks{
    "locks",
    "List locks with their holders and waiters",
    "[NAME...]",
    "List the locks, rwlocks and semaphores that processes hold or wait for.",
    R"(On a terminal, the output has columns, and the token only if there is room. Elsewhere, it has one
line per holder with tab-separated fields: dictionary, key, kind, share, token, pid, program,
host, state, seconds held, seconds left, waiters, reason; "-" means none. Unprintable bytes of a
key are printed as \xHH. Root gets the locks of all users, with the user in an extra field, unless
a directory or user is named.
If the holder is dead, the next process that requests the lock gets it.)",
    run_locks};

}  // namespace holdfast::cli
