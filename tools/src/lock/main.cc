// The program `holdfast`. It runs `lock`, `flock` and `unlock`, and executes `holdfast-tools` for all other commands.
// Crontabs start these three often, so this program links nothing that only other commands need.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "cli/arguments.h"
#include "cli/paths.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

int become_tools(char** values) {
  const std::string program = program_beside("holdfast-tools");
  ::execv(program.c_str(), values);
  say("cannot run {}: {}; install it beside holdfast", program, std::strerror(errno));
  return exit_status::kTrouble;
}

int run(int count, char** values) {
  Words words(values + std::min(count, 1), values + count);
  // A link named flock takes the place of flock(1).
  const std::string name = count > 0 ? values[0] : "";
  if (name.substr(name.rfind('/') + 1) == "flock") words.insert(words.begin(), "flock");
  for (const Subcommand* const command : {&kLock, &kFlock, &kUnlock}) {
    if (words.empty() || words.front() != command->name) continue;
    make_room_for_title(count, values);
    return run_command(*command, {words.begin() + 1, words.end()});
  }
  return become_tools(values);
}

}  // namespace

}  // namespace holdfast::cli

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  return holdfast::cli::run(count, values);
}
