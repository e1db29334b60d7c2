#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "inspect/dictionaries.h"
#include "inspect/json.h"
#include "inspect/text.h"
#include "inspect/uses.h"
#include "inspect/world.h"
#include "look/cells.h"
#include "world/world_file.h"

namespace holdfast::cli {

namespace {

using inspect::Dictionary;
using inspect::Opener;
using inspect::Users;

/// The time limits without and with --processes. They apply to the search for processes that have the dictionaries
/// open, and separately to the search for processes that hold or wait for locks in them.
constexpr double kShortSearch = 0.01;
constexpr double kLongSearch = 30;

struct ShownOpeners {
  std::string people;
  std::string programs;
};

/// Returns, for example, "3: nginx 2, luajit" for people and "4711,4712,4713" for programs.
ShownOpeners show(const Users& users) {
  std::map<std::string, int> count_of;
  ShownOpeners shown;
  for (const Opener& opener : users.seen) {
    ++count_of[opener.program.empty() ? "?" : opener.program];
    shown.programs += (shown.programs.empty() ? "" : ",") + std::to_string(opener.pid);
  }
  if (!users.complete) shown.programs += "+";
  if (shown.programs.empty()) shown.programs = "-";
  shown.people = fmt::format("{}{}", users.seen.size(), users.complete ? "" : "+");
  const char* between = ": ";
  for (const auto& [program, count] : count_of) {
    shown.people += between + inspect::escaped(program) + (count > 1 ? fmt::format(" {}", count) : "");
    between = ", ";
  }
  return shown;
}

Style style_of_use(const Dictionary& dictionary) {
  const auto used = static_cast<double>(dictionary.counts.bytes_used);
  const double room = used + static_cast<double>(dictionary.counts.bytes_free);
  return used > kFull * room ? Style::yellow : Style::plain;
}

std::vector<Cell> row_of(const Dictionary& dictionary, const Users& users) {
  const std::string name = inspect::escaped(dictionary.name);
  if (!dictionary.trouble.empty()) {
    const std::string why = inspect::escaped(dictionary.trouble);
    return {Cell(name),
            Cell("-"),
            Cell("-"),
            Cell("-"),
            Cell("-", Style::plain, "-\t-"),
            Cell("-"),
            Cell("-"),
            Cell(why, Style::red, "-\t" + why)};
  }
  const holdfast_stats& counts = dictionary.counts;
  const ShownOpeners shown = show(users);
  return {Cell(name, Style::bold),
          Cell(inspect::bytes_in_words(dictionary.size), Style::plain, std::to_string(dictionary.size)),
          Cell(inspect::bytes_in_words(counts.bytes_used), style_of_use(dictionary), std::to_string(counts.bytes_used)),
          Cell(std::to_string(counts.entries)),
          Cell(inspect::share_in_words(counts.hits, dictionary.reads()), Style::plain,
               fmt::format("{}\t{}", counts.hits, counts.misses)),
          Cell(std::to_string(counts.evictions), counts.evictions != 0 ? Style::yellow : Style::plain),
          Cell(std::to_string(counts.repairs), counts.repairs != 0 ? Style::yellow : Style::plain),
          Cell(shown.people, Style::plain, shown.programs + "\t-")};
}

struct SeenDictionaries {
  std::string directory;
  bool is_used = true;             // whether any program has used the directory
  std::vector<std::string> names;  // the requested dictionaries that exist
  std::vector<Dictionary> dictionaries;
  inspect::Processes processes;
  inspect::Openers openers;

  Users users_of(const Dictionary& dictionary) { return inspect::users_of(dictionary, openers, processes); }
};

SeenDictionaries gather_dictionaries(WorldOptions& options, const std::vector<std::string>& asked, inspect::Read what,
                                     double seconds) {
  SeenDictionaries seen;
  options.want_openers();
  const auto observed = options.observe_if_used(asked);
  seen.directory = observed.value_or(inspect::directory_to_be());
  seen.is_used = observed.has_value();
  if (!seen.is_used) return seen;
  const std::vector<std::string>& names = seen.names = options.names_in(seen.directory, asked);
  if (names.empty() && !asked.empty()) return seen;
  seen.processes = value_or_fail(inspect::Processes::read());
  seen.dictionaries = value_or_fail(inspect::look_at_dictionaries(seen.directory, names, what));
  seen.openers = options.openers(seen.directory, seen.processes.pids(), seconds);
  const double end = holdfast_now() + seconds;
  for (Dictionary& dictionary : seen.dictionaries) inspect::find_lockers(dictionary, end);
  return seen;
}

bool is_any_in_trouble(const std::vector<Dictionary>& dictionaries) {
  return std::any_of(dictionaries.begin(), dictionaries.end(),
                     [](const Dictionary& dictionary) { return !dictionary.trouble.empty(); });
}

Shown show(SeenDictionaries& seen, bool as_json) {
  Shown shown{.directory = seen.directory, .is_used = seen.is_used, .names = seen.names};
  for (const Dictionary& dictionary : seen.dictionaries) {
    if (as_json)
      shown.items.push_back(inspect::to_json(dictionary, seen.users_of(dictionary)));
    else
      shown.rows.push_back(row_of(dictionary, seen.users_of(dictionary)));
  }
  if (is_any_in_trouble(seen.dictionaries)) shown.status = exit_status::kTrouble;
  return shown;
}

void print_list(const std::vector<Shown>& all, const WorldOptions& options) {
  using Align = Table::Align;
  const Output output = options.output();
  constexpr int kMost = 9;
  const Table table = table_of({{"NAME", Align::left, false, kMost},
                                {"SIZE", Align::right},
                                {"USED", Align::right},
                                {"ENTRIES", Align::right},
                                {"HITS", Align::right},
                                {"EVICTED", Align::right},
                                {"REPAIRED", Align::right},
                                {"PROCESSES", Align::left, true}},
                               all, options.shows_all(), output);
  if (!table.empty()) print(table.text(output));
  if (table.empty() && output.columns && is_any_used(all))
    print(fmt::format("no dictionaries in {}\n", directories_in_words(all)));
  options.print_rest(all);
}

// --- stat ---

const char* persists(const inspect::WorldFile& file) {
  if (file.persist == kTemporary) return "no";
  return file.persist == kKept ? "kept" : "yes";
}

using Line = std::pair<const char*, std::string>;

/// Adds the counts of the dictionary's queue and caches, if there are any.
void add_uses(const Dictionary& dictionary, std::vector<Line>& lines) {
  if (const auto queue = inspect::queue_in(dictionary.name, dictionary.handle)) {
    const auto in_words = [&](std::uint64_t count) { return queue->is_counted ? std::to_string(count) : "-"; };
    lines.emplace_back("queue waiting", std::to_string(queue->waiting));
    lines.emplace_back("queue oldest", fmt::format("{:.1f}", queue->oldest));
    lines.emplace_back("queue ready", in_words(queue->ready));
    lines.emplace_back("queue delayed", in_words(queue->delayed));
    lines.emplace_back("queue taken", in_words(queue->taken));
    lines.emplace_back("queue dead", in_words(queue->dead));
  }
  static const std::pair<std::string_view, const char*> kTitles[] = {{"l1_hits", "cache hits, level 1"},
                                                                     {"l2_hits", "cache hits, level 2"},
                                                                     {"stale", "cache hits, stale"},
                                                                     {"loads", "cache loads"},
                                                                     {"load_errors", "cache load errors"}};
  for (const auto& [name, sum] : inspect::cache_counts_in(dictionary.handle))
    for (const auto& [known, title] : kTitles)
      if (known == name) lines.emplace_back(title, std::to_string(sum));
}

std::vector<Line> lines_of(SeenDictionaries& seen, const Dictionary& dictionary) {
  const holdfast_stats& counts = dictionary.counts;
  const auto amount = [](std::uint64_t bytes) { return fmt::format("{} ({})", bytes, inspect::bytes_in_words(bytes)); };
  std::vector<Line> lines{
      {"name", inspect::escaped(dictionary.name)},
      {"file", inspect::escaped(seen.directory + "/" + dictionary.file.name)},
      {"size", amount(dictionary.size)},
      {"used", amount(counts.bytes_used)},
      {"free", amount(counts.bytes_free)},
      {"memory", amount(dictionary.file.bytes_taken)},
      {"largest value", amount(dictionary.largest_value)},
      {"entries", std::to_string(counts.entries)},
      {"hits", std::to_string(counts.hits)},
      {"misses", std::to_string(counts.misses)},
      {"hit ratio", inspect::share_in_words(counts.hits, dictionary.reads())},
      {"evictions", std::to_string(counts.evictions)},
      {"expirations", std::to_string(counts.expirations)},
      {"repairs", std::to_string(counts.repairs)},
      {"mutex waits", std::to_string(counts.mutex_waits)},
      {"lock waits", std::to_string(counts.lock_waits)},
      {"lock wakes", std::to_string(counts.lock_wakes)},
      {"lock reserved ms", std::to_string(counts.lock_reserved_ms)},
      {"mutex", dictionary.file.mutex},
      {"shards", std::to_string(dictionary.file.shards)},
      {"persists", persists(dictionary.file)},
      {"mode", fmt::format("{:04o}", dictionary.file.mode)},
      {"cluster", dictionary.cluster.empty() ? "-" : dictionary.cluster},
  };
  add_uses(dictionary, lines);
  std::string openers;
  const Users users = seen.users_of(dictionary);
  for (const Opener& opener : users.seen) {
    openers += fmt::format("{}{}", openers.empty() ? "" : ", ", opener.pid);
    if (!opener.program.empty()) openers += fmt::format(" ({})", inspect::escaped(opener.program));
  }
  if (!users.complete) openers += openers.empty() ? "unknown" : ", maybe more";
  lines.emplace_back("processes", openers.empty() ? "-" : openers);
  return lines;
}

void print_lines(const std::vector<Line>& lines, const Output& output) {
  std::size_t width = 0;
  for (const auto& [title, text] : lines) width = std::max(width, std::string_view(title).size());
  const std::string blanks(width + 2, ' ');
  std::string all;
  for (const auto& [title, text] : lines) {
    if (output.columns)
      all +=
          paragraph(text, output.width, output.styled(fmt::format("{:<{}}", title, width), Style::bold) + "  ", blanks);
    else
      all += fmt::format("{}\t{}\n", title, text);
  }
  print(all);
}

int run_ls(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  bool all_processes = false;
  arguments.add_flag("-p,--processes", all_processes, "Find all processes, however long it takes");
  arguments.parse(0, HOLDFAST_KEY_MAX, {"NAME"});
  const auto what = world.json() ? inspect::Read::header : inspect::Read::status;
  const double seconds = all_processes ? kLongSearch : kShortSearch;
  const std::vector<Shown> all = world.look(kSecondsEach + 2 * seconds, [&] {
    SeenDictionaries seen = gather_dictionaries(world, arguments.words(), what, seconds);
    return show(seen, world.json());
  });
  if (const auto missing = missing_names(arguments.words(), all); !missing.empty()) fail("{}", missing.front());
  if (world.json())
    print_json(json_of(all, "dictionaries", world.shows_all()), world.output());
  else
    print_list(all, world);
  return report_troubles(all);
}

int run_stat(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  arguments.parse(1, 1, {"NAME"});
  SeenDictionaries seen = gather_dictionaries(world, arguments.words(), inspect::Read::header, kLongSearch);
  const Dictionary& dictionary = seen.dictionaries.front();
  if (world.json()) {
    print_json(inspect::to_json(dictionary, seen.users_of(dictionary)), world.output());
  } else if (dictionary.trouble.empty()) {
    print_lines(lines_of(seen, dictionary), world.output());
  }
  if (!dictionary.trouble.empty()) fail("{}", dictionary.trouble);
  return exit_status::kYes;
}

}  // namespace

const Subcommand kLs{"ls",
                     "List dictionaries",
                     "[NAME...]",
                     "List the dictionaries of a runtime directory, with their usage and their processes.",
                     R"(On a terminal, prints columns; otherwise, one line per dictionary with tab-separated fields:
name, bytes, bytes used, entries, hits, misses, evictions, repairs, processes, trouble. Root gets
the dictionaries of all users, with the user in an extra field, unless a directory or user is
named. The field "processes" lists the processes that have the dictionary open, or that hold or
wait for a lock in it. Without --processes, the search for them stops after about 20 ms; "+" means
that there may be more.)",
                     run_ls};

const Subcommand kStat{"stat",
                       "Show one dictionary in detail",
                       "NAME",
                       "Show one dictionary in detail.",
                       "holdfast(1) explains each line.",
                       run_stat};

}  // namespace holdfast::cli
