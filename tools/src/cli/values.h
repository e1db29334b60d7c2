// The commands for scripts: `holdfast get`, `set`, `del`, `incr`, `ttl`, `keys`. get, keys, and ttl without a new time
// look at the world; the others enter it.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_get(const std::vector<std::string>& arguments);
int run_set(const std::vector<std::string>& arguments);
int run_del(const std::vector<std::string>& arguments);
int run_incr(const std::vector<std::string>& arguments);
int run_ttl(const std::vector<std::string>& arguments);
int run_keys(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
