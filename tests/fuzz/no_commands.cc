// The command line of `holdfast run`, without the other commands: they are programs of their own.
#include <string>
#include <vector>

#include "cli/commands.h"

namespace holdfast::cli {

const std::vector<Subcommand>& commands() {
  static const std::vector<Subcommand> none;
  return none;
}

std::string names_of_commands() { return "run"; }

}  // namespace holdfast::cli
