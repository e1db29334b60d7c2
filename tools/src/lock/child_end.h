// How a child has ended, in words.
#pragma once

#include <string>

namespace holdfast::cli {

/// "exited with status 1", "was killed by signal 9 (Killed)". `status` is waitpid's.
std::string describe_end(int status);

}  // namespace holdfast::cli
