// `holdfast serve`: metrics, JSON and a page about a world, over HTTP.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_serve(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
