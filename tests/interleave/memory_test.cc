// Memory of the dead, with others that take it and die in the midst of an attempt.
#include <gtest/gtest.h>

#include <string>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

class InterleaveMemory : public testing::Test {
 protected:
  /// Takes locks under keys of its own until there is no memory, and says so.
  static int take_all(Channel& parent, const std::string& prefix) {
    Dict dict("locks", {.size = 65536});
    holdfast_lease lease{};
    int taken = 0;
    while (dict.try_lock(prefix + std::to_string(taken), 0, &lease) == HOLDFAST_OK) ++taken;
    parent.say(taken > 10 ? "full" : holdfast_error());
    parent.hear();
    return 0;
  }
  static void take_all_and_die(const std::string& prefix) {
    Started process("full", [&](Channel& parent) { return take_all(parent, prefix); });
    process.kill_and_wait();
  }

  const ScratchDirectory directory_;
};

TEST_F(InterleaveMemory, of_processes_that_die_while_it_is_looked_for_is_found_too) {
  Started living("ready", [](Channel& parent) {
    Dict dict("locks", {.size = 65536});
    parent.say("ready");
    parent.hear();
    pause_at("reclaim.done", parent);
    holdfast_lease lease{};
    // As long a key as theirs: it does not fit where theirs did not.
    parent.say(holdfast_code_text(dict.try_lock("third 1000", 0, &lease)));
    return 0;
  });
  take_all_and_die("first ");
  ASSERT_EQ(living.ask("lock"), "at reclaim.done");
  take_all_and_die("second ");
  EXPECT_EQ(living.ask("go on"), "ok");
}

}  // namespace
}  // namespace holdfast::test
