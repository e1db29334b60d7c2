// `holdfast locks`: what is held and waited for.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_locks(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
