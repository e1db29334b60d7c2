// Tests how long a cluster's dictionary lives. This program never opens the runtime directory itself, so each child
// starts with an empty directory.
#include <gtest/gtest.h>

#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

/// Opens the dictionary in a process. Returns whether the process finds the value that an earlier process stored.
bool is_found_by_process() {
  Child visitor([](Channel& parent) {
    Dict dict("dict", {.kept = true, .cluster = "main"});
    if (dict.status != HOLDFAST_OK) return 1;
    parent.say(dict.get("visited").code == HOLDFAST_OK ? "found" : "new");
    return dict.set("visited", "yes") == HOLDFAST_OK ? 0 : 1;
  });
  const bool found = visitor.hear() == "found";
  EXPECT_EQ(0, visitor.wait());
  return found;
}

TEST(ClusterLife, ends_with_its_last_process) {
  const ScratchDirectory world;
  EXPECT_FALSE(is_found_by_process());
  EXPECT_FALSE(is_found_by_process());
}

}  // namespace
}  // namespace holdfast::test
