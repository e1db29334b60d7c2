// The commands, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

struct Subcommand {
  const char* name;
  const char* summary;
  /// `arguments`: those after the name. The exit status.
  int (*run)(const std::vector<std::string>& arguments);
};

/// All but `run`, by name.
const std::vector<Subcommand>& commands();
/// Null if there is none.
const Subcommand* find_command(std::string_view name);
/// "agent, cluster, ...", `run` included.
std::string names_of_commands();

}  // namespace holdfast::cli
