// A Lua script and the LuaJIT state in which it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/channel.h"

namespace holdfast::cli {

struct Script {
  std::string path;                 // the path of the script's file; "-e" for code from the command line
  std::optional<std::string> code;  // the code from the command line
  std::vector<std::string> arguments;
};

/// Compiles the script without running it. Reports errors on standard error.
bool compiles(const Script& script);

/// Runs the script to its end, and then the tasks that it left in the scheduler. Prints an error with its traceback to
/// standard error; the message begins with `speaker`. Returns the exit status of the process.
int run_script(const Script& script, const std::string& speaker, ExitRequest request);

}  // namespace holdfast::cli
