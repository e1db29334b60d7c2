// `holdfast cluster`: what a cluster's locks are doing, as this machine and the store see it.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// Runs the command; gives the exit status: 0, 1 (the answer is no, or there is none), or 2 (the command line is
/// wrong).
int run_cluster_command(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
