#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "cli/arguments.h"
#include "cli/message.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

// As --help lists them.
const std::vector<const Subcommand*> kCommands{
    &kRun, &kAgent, &kCluster, &kDel, &kDoctor, &kGet, &kIncr, &kKeys, &kLock, &kLocks,
    &kLs,  &kPrune, &kRelease, &kRm,  &kServe,  &kSet, &kStat, &kTop,  &kTtl,
};

std::string names_of_commands() {
  std::vector<std::string> names;
  for (const Subcommand* command : kCommands) names.emplace_back(command->name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int run_without_command(const Words& words) {
  const std::string footer =
      "Commands:\n" + list_of(kCommands) + "\n\"holdfast COMMAND --help\" tells more about a command.";
  const Subcommand holdfast{
      "", "", "COMMAND ...", "Cross-process locks and a shared dictionary for LuaJIT.", footer.c_str(), nullptr};
  Arguments arguments(holdfast);
  arguments.add_version("--version", holdfast_version());
  arguments.pass_on_from_first_word();
  if (const auto done = arguments.parse(words)) return *done;
  if (arguments.passed_on().empty()) return arguments.refuse("no command was given; accepted: " + names_of_commands());
  return arguments.refuse(
      fmt::format("unknown command \"{}\"; accepted: {}", arguments.passed_on().front(), names_of_commands()));
}

}  // namespace

std::string list_of(const std::vector<const Subcommand*>& commands) {
  std::string text;
  for (const Subcommand* command : commands) {
    const std::string_view name = command->name;
    text += help_line(name.substr(name.rfind(' ') + 1), command->summary);
  }
  return text;
}

int run_command_line(const Words& words) try {
  const auto is_named = [&](const Subcommand* command) { return !words.empty() && command->name == words.front(); };
  const auto command = std::find_if(kCommands.begin(), kCommands.end(), is_named);
  if (command == kCommands.end()) return run_without_command(words);
  return (*command)->run({words.begin() + 1, words.end()});
} catch (const std::exception& error) {
  say("{}", error.what());
  return exit_status::kTrouble;
}

}  // namespace holdfast::cli
