// A release that was refused, and that no thread makes up for.
#include <gtest/gtest.h>

#include <future>

#include "dict/guard.h"
#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// Fails if only the thread tries again, which may not have been started.
TEST(interleave_late_release, the_next_call_that_finds_it_held_makes_up_for_it) {
  const ScratchDirectory directory;
  in_process([] {
    Dict dict("dict", {.size = 32768});  // one shard
    const auto take = [&dict](holdfast_lease& lease) {
      return holdfast_permits_try(dict.handle, "key", 3, HOLDFAST_SEMAPHORE, 1, 1, 0, 0, 0, &lease);
    };
    holdfast_lease lease{};
    ASSERT_EQ(take(lease), HOLDFAST_OK);
    std::promise<void> go_on;
    at_failpoint("late_release.thread", [&go_on] { go_on.get_future().wait(); });
    {
      Started inside("has the mutex", [](Channel& parent) {
        Dict other("dict", {.size = 32768});
        const ShardGuard guard(other.segment().shards()[0]);
        parent.say("has the mutex");
        parent.hear();
        return 0;
      });
      EXPECT_EQ(holdfast_unlock_for_certain(dict.handle, "key", 3, &lease), HOLDFAST_TIMEOUT);
      inside.say("go on");
      EXPECT_EQ(inside.wait(), 0);
    }
    holdfast_lease next{};
    EXPECT_EQ(take(next), HOLDFAST_OK);
    go_on.set_value();
  });
}

}  // namespace
}  // namespace holdfast::test
