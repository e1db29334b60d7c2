// The program `holdfast`. It runs `lock`, `flock` and `unlock`, and executes `holdfast-tools` for all other commands.
// Crontabs start these three commands often. So this program is not linked with code that only other commands need, and
// does not load other libraries.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "cli/arguments.h"
#include "cli/paths.h"
#include "cli/user.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

char** arguments = nullptr;  // the arguments of this process

int become_tools() {
  const std::string program = program_beside("holdfast-tools");
  ::execv(program.c_str(), arguments);
  say("cannot run {}: {}; install it beside holdfast", program, std::strerror(errno));
  return exit_status::kTrouble;
}

int run(int count, char** values) {
  arguments = values;
  Words words(values + std::min(count, 1), values + count);
  // A link named flock replaces flock(1).
  const std::string name = count > 0 ? values[0] : "";
  if (name.substr(name.rfind('/') + 1) == "flock") words.insert(words.begin(), "flock");
  for (const Subcommand* const command : {&kLock, &kFlock, &kUnlock}) {
    if (words.empty() || words.front() != command->name) continue;
    make_room_for_title(count, values);
    return run_command(*command, {words.begin() + 1, words.end()});
  }
  return become_tools();
}

}  // namespace

// Replaces the function that cli/user.h declares, because the C library loads modules to look up a user.
std::string check_user(const std::string& /*name*/) { std::exit(become_tools()); }
std::string become_user(const std::string& name, const std::function<void(uid_t)>& /*before*/) {
  return check_user(name);
}

}  // namespace holdfast::cli

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  return holdfast::cli::run(count, values);
}
