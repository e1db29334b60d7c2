// `holdfast rm` removes dictionaries. `holdfast prune` frees expired values and the locks of dead processes.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/removal.h"
#include "cli/world_options.h"
#include "inspect/dictionaries.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

/// Removes a dictionary if there was no objection. Returns the exit status. `was_there`: the dictionary existed before
/// this process entered the world. Entering a world may remove dictionaries that dead processes left behind.
int remove(const Candidate& candidate, bool was_there) {
  const std::string& name = candidate.name;
  // Other processes may have removed the dictionary since it was judged, and created a new one.
  const bool is_judged = candidate.forced || candidate.use.still_has_name();
  const int code = is_judged ? holdfast_remove(name.data(), name.size()) : int{HOLDFAST_NOT_FOUND};
  if (code == HOLDFAST_OK || (code == HOLDFAST_NOT_FOUND && was_there)) return exit_status::kYes;
  say("{}", code == HOLDFAST_NOT_FOUND ? inspect::no_such_dictionary(name).message : inspect::sentence(code));
  return exit_status::kTrouble;
}

int refuse(const WorldOptions& world, const std::string& directory, const Candidate& candidate,
           const HolderJudge& judge) {
  const std::string why =
      candidate.use.is_used ? use_in_words(world, directory, candidate.name, judge) : candidate.objection;
  return say_no("dictionary {} was not removed: {}; use --force to override", quote_name(candidate.name), why);
}

bool is_file_there(const std::string& name) {
  return inspect::read_dictionary_file(inspect::directory_to_be(), name, inspect::Read::status).trouble.empty();
}

struct Pruned {
  std::string name;
  std::uint32_t entries = 0;
  std::uint64_t repairs = 0;
  std::uint64_t bytes = 0;
};

Expected<Pruned> prune(const std::string& name) {
  auto dict = inspect::attach(name);
  if (!dict) return dict.status();
  Pruned pruned{name};
  holdfast_stats before{};
  holdfast_stats after{};
  holdfast_dict_stats(*dict, &before);
  if (const int code = holdfast_flush_expired(*dict, 0, &pruned.entries); code != HOLDFAST_OK)
    return Status{static_cast<Code>(code), quote_name(name) + ": " + inspect::sentence(code)};
  holdfast_dict_stats(*dict, &after);
  pruned.repairs = after.repairs - std::min(after.repairs, before.repairs);
  pruned.bytes = before.bytes_used - std::min(before.bytes_used, after.bytes_used);
  return pruned;
}

void print_pruned(const std::vector<Pruned>& all, const Output& output) {
  using Align = Table::Align;
  Table table({{"NAME"}, {"EXPIRED", Align::right}, {"FREED", Align::right}, {"REPAIRED", Align::right}});
  for (const Pruned& one : all)
    table.add({Cell(inspect::escaped(one.name), Style::bold), Cell(std::to_string(one.entries)),
               Cell(inspect::bytes_in_words(one.bytes), Style::plain, std::to_string(one.bytes)),
               Cell(std::to_string(one.repairs), one.repairs != 0 ? Style::yellow : Style::plain)});
  if (!table.empty()) print(table.text(output));
}

void print_pruned_json(const std::string& directory, const std::vector<Pruned>& all, const Output& output) {
  inspect::Json json;
  inspect::add_text(json, "directory", directory);
  json["dictionaries"] = inspect::Json::array();
  for (const Pruned& one : all) {
    inspect::Json& to = json["dictionaries"].emplace_back();
    inspect::add_text(to, "name", one.name);
    to["expired"] = one.entries;
    to["freed"] = one.bytes;
    to["repairs"] = one.repairs;
  }
  print_json(json, output);
}

int run_rm(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::nothing);
  bool force = false;
  arguments.add_flag("-f,--force", force, "Also remove dictionaries that are in use");
  arguments.parse(1, HOLDFAST_KEY_MAX, {"NAME"});
  for (const std::string& name : arguments.words())
    if (const Status wrong = check_name(name); !wrong.ok()) arguments.refuse(wrong.message);
  world.want_openers();
  world.apply();
  std::map<std::string, bool> was_there;
  for (const std::string& name : arguments.words()) was_there[name] = is_file_there(name);
  const HolderJudge judge;
  // Enter first: the first process that enters a world removes the dictionaries that dead processes left behind.
  const std::string directory = value_or_fail(inspect::enter());
  int status = exit_status::kYes;
  // Judge one dictionary at a time, because other processes cannot open a dictionary while it is being judged. Only
  // afterwards, find the processes that use it.
  for (const auto& [name, there] : was_there) {
    Candidate candidate = force ? Candidate{.name = name, .forced = true} : judge_removal(name, judge);
    if (candidate.objection.empty() && !candidate.use.is_used) {
      status = std::max(status, remove(candidate, there));
      continue;
    }
    candidate.use.close();
    status = std::max(status, refuse(world, directory, candidate, judge));
  }
  return status;
}

int run_prune(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  arguments.parse(0, HOLDFAST_KEY_MAX, {"NAME"});
  world.apply();
  std::set<std::string> were_there;
  for (const std::string& name : arguments.words())
    if (is_file_there(name)) were_there.insert(name);
  const std::string directory = world.enter();  // removes dictionaries that dead processes left behind
  const std::vector<std::string> names = value_or_fail(inspect::dictionary_names());
  std::vector<Pruned> pruned;
  bool failed = false;
  for (const std::string& name : arguments.words().empty() ? names : arguments.words()) {
    const auto one = prune(name);
    if (one) {
      pruned.push_back(*one);
      continue;
    }
    const bool is_gone = inspect::is_gone(directory, name, static_cast<int>(one.status().code));
    if (is_gone && (arguments.words().empty() || were_there.contains(name))) continue;
    say("{}", one.status().message);
    failed = true;
  }
  if (world.json())
    print_pruned_json(directory, pruned, world.output());
  else
    print_pruned(pruned, world.output());
  return failed ? exit_status::kTrouble : exit_status::kYes;
}

}  // namespace

const Subcommand kRm{
    "rm",
    "Remove dictionaries",
    "NAME...",
    "Remove dictionaries and the locks in them.",
    R"(If another process has a dictionary open or holds a lock in it, or if rm cannot tell, rm keeps the
dictionary. Otherwise, its locks would be lost. With --force, rm removes it, and those processes get
an error. Opening a dictionary of that name afterwards creates a new one.

Exit status: 0 success; 1 a dictionary was not removed; 2 error.)",
    run_rm};

const Subcommand kPrune{"prune",
                        "Free expired values and locks of dead processes",
                        "[NAME...]",
                        "Free expired values and locks of dead processes.",
                        R"(Without NAME, prunes all dictionaries. Holdfast also does this automatically when it needs
memory. prune also repairs damage. Other processes are delayed by a few milliseconds per MB.
If no process uses the runtime directory, prune removes all dictionaries that are not persistent.)",
                        run_prune};

}  // namespace holdfast::cli
