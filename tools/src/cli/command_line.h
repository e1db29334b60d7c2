// The command line: what was asked for, or what is wrong with it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "run/run_options.h"

namespace holdfast::cli {

inline constexpr int kUsageError = 2;

/// Nothing is left to do: the text was help or a version, or the command line was refused and the reason printed.
struct Done {
  int status;
};

using Parsed = std::variant<Done, RunOptions>;

/// `arguments` without the name of the program.
Parsed parse_command_line(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
