#include "fuzz/world_of_one.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "support/process.h"

namespace holdfast::fuzz {

namespace {

/// A copy of stderr for fail(). stderr itself gets messages about bad command lines, so libFuzzer's -close_fd_mask
/// closes it.
const int report_fd = ::dup(STDERR_FILENO);

}  // namespace

World& world_of_one() {
  static World* const world = [] {
    if (std::getenv("HOLDFAST_DIR") == nullptr) static const test::ScratchDirectory directory;
    auto entered = World::current();
    if (!entered) fail(entered.status().message);
    return *entered;
  }();
  return *world;
}

test::CallLimit& call_limit() {
  static std::atomic<const char*> current{nullptr};
  static auto* const limit =
      new test::CallLimit(current);  // never freed, because the watching thread uses it until the process ends
  return *limit;
}

void fail(const std::string& what) {
  ::dprintf(report_fd, "violation: %s\n", what.c_str());
  std::abort();
}

}  // namespace holdfast::fuzz
