// The command line of `holdfast run`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/arguments.h"
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

/// Reads the command line.
RunOptions read_run_options(Arguments& arguments);

}  // namespace holdfast::cli
