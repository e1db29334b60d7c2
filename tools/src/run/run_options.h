// Reads the command line of `holdfast run`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "run/dictionaries.h"
#include "run/script.h"

namespace holdfast::cli {

/// The largest number of processes in a runtime directory, minus the command itself.
inline constexpr int kWorkersMax = 1023;
inline constexpr double kGraceMax = 86400;

struct RunOptions {
  int workers = 1;
  std::vector<Declaration> dictionaries;  // from --dict and $HOLDFAST_DICTS
  std::vector<std::string> agents;        // names of clusters
  std::string agent_config;               // path of a file; empty for the cluster's default
  bool respawn = false;
  std::chrono::duration<double> grace{5};  // from TERM to KILL
  Script script;
};

/// Reads the command line.
RunOptions read_run_options(Arguments& arguments);

}  // namespace holdfast::cli
