// `holdfast lock`: runs a command that holds a lock.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// `arguments`: those after "lock". Returns the exit status, unless this process becomes the command or ends by a
/// signal.
int run_lock_command(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
