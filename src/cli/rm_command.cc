// `holdfast rm` and `holdfast prune`: what is not wanted any more goes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/name.h"
#include "cli/administration.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

constexpr double kLookForUsers = 5;
constexpr std::size_t kLocksLookedAt = 1000;

constexpr CommandTexts kRm{
    "rm", "NAME...", "Removes dictionaries, with the locks in them.",
    R"(Refused for one that other processes have open: their locks in it would be lost. With --force
they are told that it was removed, and the next one of its name is a new one.

Exit status: 0; 1 one of them was refused; 2 trouble.)"};

constexpr CommandTexts kPrune{
    "prune", "[NAME...]", "Frees what has expired and what dead processes have left, in all dictionaries.",
    R"(That is memory which would come free by itself when it is needed. It also finds damage and
repairs it. Others wait meanwhile, for a few milliseconds for each MB. Dictionaries that are
left of a world without processes go, unless they persist.)"};

/// Why it must not go: the processes that have it open, or that hold something in it. Empty: it may.
std::string objection(const WorldOptions& world, const std::string& directory, const std::string& name) {
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status().message;
  const auto openers = world.openers(directory, processes->pids(), kLookForUsers);
  inspect::Dictionary dictionary;
  dictionary.file = inspect::read_dictionary_file(directory, name);
  std::vector<inspect::Opener> users = inspect::openers_of(dictionary, openers, *processes);
  std::erase_if(users, [](const inspect::Opener& user) { return user.pid == static_cast<std::uint32_t>(::getpid()); });
  if (!users.empty())
    return fmt::format("{} it open: pid {} ({}){}", inspect::counted(users.size(), "process has", "processes have"),
                       users.front().pid, inspect::escaped(users.front().program),
                       users.size() > 1 ? " and others" : "");
  const std::vector<const inspect::Process*> living = processes->living();
  const auto is_unseen = [](const inspect::Process* process) { return process->pid_here == 0; };
  if (const auto unseen = std::find_if(living.begin(), living.end(), is_unseen); unseen != living.end())
    return fmt::format("it cannot be told whether {} has it open, which is in another pid namespace",
                       inspect::in_words(**unseen));
  if (!openers.complete())
    return "it cannot be told whether a process has it open, as this user may not look at all of them";
  std::vector<inspect::Lock> locks;
  // One that is damaged, or of no use, may go.
  static_cast<void>(inspect::gather_locks(name, "", inspect::Which::all, kLocksLookedAt, locks));
  for (const inspect::Lock& lock : locks)
    for (const holdfast_holder& holder : lock.holders)
      if (const inspect::Process& process = processes->of(holder.owner); process.life != inspect::Life::dead)
        return fmt::format("{} holds {} in it", inspect::in_words(process), quote(lock.key));
  return {};
}

/// The exit status.
int remove(const WorldOptions& world, const std::string& directory, const std::string& name, bool force) {
  if (const std::string why = force ? "" : objection(world, directory, name); !why.empty()) {
    say("dictionary {} was not removed: {}; --force removes it all the same", quote_name(name), why);
    return exit_status::kNo;
  }
  const int code = holdfast_remove(name.data(), name.size());
  if (code == HOLDFAST_OK) return exit_status::kYes;
  say("{}", code == HOLDFAST_NOT_FOUND ? inspect::no_such_dictionary(name).message : inspect::sentence(code));
  return exit_status::kTrouble;
}

struct Pruned {
  std::string name;
  std::uint32_t entries = 0;
  std::uint64_t repairs = 0;
  std::uint64_t bytes = 0;
};

std::optional<Pruned> prune(const std::string& name) {
  auto dict = inspect::attach(name);
  if (!dict) {
    say("{}", dict.status().message);
    return std::nullopt;
  }
  Pruned pruned{name};
  holdfast_stats before{};
  holdfast_stats after{};
  holdfast_dict_stats(*dict, &before);
  if (const int code = holdfast_flush_expired(*dict, 0, &pruned.entries); code != HOLDFAST_OK) {
    say("{}: {}", quote_name(name), inspect::sentence(code));
    return std::nullopt;
  }
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

}  // namespace

int run_rm(const std::vector<std::string>& given) {
  Arguments arguments(kRm);
  WorldOptions world(arguments, WorldOptions::Prints::nothing);
  bool force = false;
  arguments.add_flag("-f,--force", force, "Also one that is in use");
  arguments.expect_words(1, HOLDFAST_KEY_MAX, {"NAME"});
  if (const auto done = arguments.parse(given)) return *done;
  world.want_openers();
  std::string directory;
  if (const auto wrong = world.enter(directory)) return *wrong;
  int status = exit_status::kYes;
  for (const std::string& name : arguments.words()) status = std::max(status, remove(world, directory, name, force));
  return status;
}

int run_prune(const std::vector<std::string>& given) {
  Arguments arguments(kPrune);
  WorldOptions world(arguments, WorldOptions::Prints::something);
  arguments.expect_words(0, HOLDFAST_KEY_MAX, {"NAME"});
  if (const auto done = arguments.parse(given)) return *done;
  std::string directory;
  if (const auto wrong = world.enter(directory)) return *wrong;
  auto names = inspect::dictionary_names();
  if (!names) {
    say("{}", names.status().message);
    return exit_status::kTrouble;
  }
  std::vector<Pruned> pruned;
  bool failed = false;
  for (const std::string& name : arguments.words().empty() ? *names : arguments.words()) {
    const auto one = prune(name);
    if (one) pruned.push_back(*one);
    failed = failed || !one;
  }
  if (world.json())
    print_pruned_json(directory, pruned, world.output());
  else
    print_pruned(pruned, world.output());
  return failed ? exit_status::kTrouble : exit_status::kYes;
}

}  // namespace holdfast::cli
