// `holdfast cluster`: what a cluster's locks are doing, as this machine and the store see it.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// Runs the subcommand that comes first.
int run_cluster(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
