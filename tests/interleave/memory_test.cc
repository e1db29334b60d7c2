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

  /// Counts in `count` how often this process comes to the failpoint from now on.
  static void count_at(const std::string& name, int& count) {
    at_failpoint(name, [name, &count] {
      ++count;
      count_at(name, count);
    });
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

// A search goes over the whole shard with its mutex held, so all others wait for it.
TEST_F(InterleaveMemory, that_was_refused_is_not_searched_for_again_at_each_call) {
  Dict dict("locks", {.size = 65536});
  holdfast_lease lease{};
  ASSERT_EQ(dict.set("neighbour", "one"), HOLDFAST_OK);
  int searches = 0;
  int sweeps = 0;
  count_at("reclaimer.clear", searches);
  count_at("reclaimer.sweep", sweeps);
  int taken = 0;
  while (dict.try_lock("held " + std::to_string(1000 + taken), 0, &lease) == HOLDFAST_OK) ++taken;
  ASSERT_GT(taken, 100);
  ASSERT_GT(searches, 0);
  const std::string value(200, 'v');
  int of_refused = 0;
  constexpr int kRounds = 300;
  for (int i = 0; i < kRounds; ++i) {
    of_refused -= searches + sweeps;
    ASSERT_EQ(dict.try_lock("other " + std::to_string(1000 + i), 0, &lease), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.set("more", value), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.store(HOLDFAST_SAFE_SET, "more", value, 0, 0), HOLDFAST_NO_MEMORY);
    of_refused += searches + sweeps;
    ASSERT_EQ(dict.set("neighbour", i % 2 == 0 ? "two" : "six"), HOLDFAST_OK);
  }
  // It is tried in earnest from time to time, should a word have been overwritten: not even once in 30 ms.
  EXPECT_LT(of_refused, kRounds / 10);
}

}  // namespace
}  // namespace holdfast::test
