// `holdfast ls` and `holdfast stat`: dictionaries.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// `arguments`: those after the name of the command; here and in all commands. The exit status.
int run_ls(const std::vector<std::string>& arguments);
int run_stat(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
