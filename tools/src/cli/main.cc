// The `holdfast` command.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "holdfast.h"
#include "platform/standard_descriptors.h"
#include "run/dictionaries.h"
#include "run/master.h"
#include "run/run_options.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

int run(const RunOptions& options) {
  // The workers inherit the guard. If it cannot be installed, they run without it, as any host does.
  static_cast<void>(holdfast_guard_sigbus());
  export_declarations(options.dictionaries);
  if (const Status opened = open_declarations(options.dictionaries); !opened.ok()) {
    say("{}", opened.message);
    return EXIT_FAILURE;
  }
  set_title(fmt::format("holdfast: master {}", options.script.path));
  return Master(options).run();
}

int run_command(const Subcommand& command, const std::vector<std::string>& arguments) try {
  return command.run(arguments);
} catch (const std::exception& error) {
  say("{}", error.what());
  return exit_status::kTrouble;
}

}  // namespace

}  // namespace holdfast::cli

int main(int count, char** values) try {
  using namespace holdfast::cli;
  holdfast::occupy_standard_descriptors();
  const std::vector<std::string> arguments(values + 1, values + count);
  make_room_for_title(count, values);
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (const Subcommand* const command = arguments.empty() ? nullptr : find_command(arguments.front()))
    return run_command(*command, rest);
  const Parsed parsed = parse_command_line(arguments);
  if (const Done* done = std::get_if<Done>(&parsed)) return done->status;
  return run(std::get<RunOptions>(parsed));
} catch (const std::exception& error) {
  holdfast::cli::say("{}", error.what());
  return EXIT_FAILURE;
}
