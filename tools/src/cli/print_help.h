// Help and versions that were asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/output.h"

namespace holdfast::cli {

/// Prints what was asked for to standard output; gives the exit status. Throws as print() does.
inline int print_help(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  const int status = app.exit(asked, text, text);
  print(text.str());
  return status;
}

}  // namespace holdfast::cli
