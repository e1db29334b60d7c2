// Reads the command line of `holdfast run`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "run/dictionaries.h"
#include "run/script.h"

namespace holdfast::cli {

/// The maximum number of processes in a runtime directory, minus one for the command itself.
inline constexpr int kWorkersMax = 1023;
inline constexpr double kGraceMax = 86400;

struct RunOptions {
  int workers = 1;
  std::vector<Declaration> dictionaries;  // the dictionaries of --dict and $HOLDFAST_DICTS
  std::vector<std::string> agents;        // names of clusters
  std::string agent_config;               // the path of the file; empty: the cluster's default
  bool respawn = false;
  std::chrono::duration<double> grace{5};  // the time from TERM to KILL
  Script script;
};

/// Reads the command line.
RunOptions read_run_options(Arguments& arguments);

}  // namespace holdfast::cli
