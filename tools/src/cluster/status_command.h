// `holdfast cluster status`.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_cluster_status(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
