// The commands that change a world: `holdfast release`, `holdfast rm`, `holdfast prune`; and `holdfast doctor`.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_release(const std::vector<std::string>& arguments);
int run_rm(const std::vector<std::string>& arguments);
int run_prune(const std::vector<std::string>& arguments);
int run_doctor(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
