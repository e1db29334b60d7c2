#include "lock/child_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

namespace holdfast::cli {

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace holdfast::cli
