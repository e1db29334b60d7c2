// `holdfast top`: a world as it lives.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_top(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
