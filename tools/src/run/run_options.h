// The command line of `holdfast run`.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "run/dictionaries.h"
#include "run/script.h"

namespace holdfast::cli {

/// As many processes as can be in a runtime directory, but for the command itself.
inline constexpr int kWorkersMax = 1023;
inline constexpr double kGraceMax = 86400;

struct RunOptions {
  int workers = 1;
  std::vector<Declaration> dictionaries;  // of --dict and $HOLDFAST_DICTS
  std::vector<std::string> agents;        // the clusters
  std::string agent_config;               // a file; empty: that of the cluster
  bool respawn = false;
  std::chrono::duration<double> grace{5};  // from the polite end of a worker to the forced one
  Script script;
};

/// The options, or the exit status, when help was asked for or a mistake was reported. `words`: those after "run".
std::variant<RunOptions, int> parse_run_options(const Words& words);

}  // namespace holdfast::cli
