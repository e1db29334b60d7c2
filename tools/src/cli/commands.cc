#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

// The commands, in the order in which --help lists them. The name of a command in a group, such as "cluster status",
// has two words.
const std::vector<const Subcommand*> kCommands{
    &kRun,
#ifdef HOLDFAST_CLUSTER
    &kAgent,     &kCluster,    &kClusterStatus,
    &kHolders,   &kBreak,      &kAcceptNewStore,
#endif
    &kDel,       &kDoctor,     &kFlock,
    &kGet,       &kIncr,       &kKeys,
    &kLock,      &kLocks,      &kLs,
    &kPrune,     &kQueue,      &kQueueLs,
    &kQueuePush, &kQueueWork,  &kQueueTake,
    &kQueueDone, &kQueueRetry, &kQueueDead,
    &kRelease,   &kRm,         &kServe,
    &kSet,       &kStat,       &kTop,
    &kTtl,       &kUnlock,
};

std::string list_of_commands() {
  std::string text;
  for (const Subcommand* command : kCommands)
    if (std::string_view(command->name).find(' ') == std::string_view::npos)
      text += help_line(command->name, command->summary);
  return text;
}

std::string names_of_commands() {
  std::vector<std::string> names;
  for (const Subcommand* command : kCommands)
    if (std::string_view(command->name).find(' ') == std::string_view::npos) names.emplace_back(command->name);
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

int run_without_command(Arguments& arguments) {
  arguments.add_version("--version", holdfast_version());
  arguments.pass_on_from_first_word();
  arguments.parse();
  if (arguments.passed_on().empty()) arguments.refuse("no command was given: expected one of " + names_of_commands());
  arguments.refuse(
      fmt::format("unknown command \"{}\": expected one of {}", arguments.passed_on().front(), names_of_commands()));
}

/// Returns null if no command has this name.
const Subcommand* find(const std::string& name) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Subcommand* command) { return command->name == name; });
  return found != kCommands.end() ? *found : nullptr;
}

}  // namespace

int run_command_line(const Words& words) {
  if (words.size() > 1)
    if (const Subcommand* const command = find(words[0] + " " + words[1]))
      return run_command(*command, {words.begin() + 2, words.end()});
  if (!words.empty() && words[0].find(' ') == std::string::npos)
    if (const Subcommand* const command = find(words[0]))
      return run_command(*command, {words.begin() + 1, words.end()});
  const std::string footer =
      "Commands:\n" + list_of_commands() +
      "\nRun \"holdfast COMMAND --help\" for help on one command. Error messages are explained at\n"
      "https://github.com/holdfast-lua/holdfast/blob/main/docs/errors.md";
  return run_command({"", "", "COMMAND ...", "Locks and shared dictionaries for LuaJIT processes.", footer.c_str(),
                      run_without_command},
                     words);
}

}  // namespace holdfast::cli
