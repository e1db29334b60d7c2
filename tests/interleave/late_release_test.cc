// Tests a release that failed and that the caller does not repeat.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "dict/guard.h"
#include "interleave/failpoint.h"
#include "lock/release.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

/// Holds the mutex of the dictionary's only shard until it is told to end.
int hold_mutex(Channel& parent) {
  Dict dict("dict", {.size = 32768});
  const ShardGuard guard(dict.segment().shards()[0]);
  parent.say("has the mutex");
  parent.hear();
  return 0;
}

// Fails if only the library's thread repeats the release, because this thread may not have been started.
TEST(interleave_late_release, the_next_call_that_finds_the_lock_held_releases_it) {
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
      Started inside("has the mutex", hold_mutex);
      EXPECT_EQ(holdfast_unlock_for_certain(dict.handle, "key", 3, &lease), HOLDFAST_TIMEOUT);
      inside.say("go on");
      EXPECT_EQ(inside.wait(), 0);
    }
    holdfast_lease next{};
    EXPECT_EQ(take(next), HOLDFAST_OK);
    go_on.set_value();
  });
}

bool runs_unlock_thread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "holdfast-unlock") return true;
  }
  return false;
}

/// Polls the condition every 10 ms for up to 10 s.
template <class Condition>
bool comes_true(Condition&& condition) {
  for (int looks = 0; looks < 1000; ++looks) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// If the thread checks the list while a call has taken all leases out of it, the thread finds nothing to do.
TEST(interleave_late_release, a_call_that_cannot_release_the_lock_leaves_it_to_a_thread) {
  const ScratchDirectory directory;
  in_process([] {
    Dict dict("dict", {.size = 32768});  // one shard
    const auto take = [&dict] {
      holdfast_lease lease{};
      return holdfast_permits_try(dict.handle, "key", 3, HOLDFAST_SEMAPHORE, 1, 1, 0, 0, 0, &lease);
    };
    holdfast_lease lease{};
    ASSERT_EQ(holdfast_permits_try(dict.handle, "key", 3, HOLDFAST_SEMAPHORE, 1, 1, 0, 0, 0, &lease), HOLDFAST_OK);
    std::promise<void> began, go_on;
    at_failpoint("late_release.thread", [&] {
      began.set_value();
      go_on.get_future().wait();
    });
    Started inside("has the mutex", hold_mutex);
    EXPECT_EQ(holdfast_unlock_for_certain(dict.handle, "key", 3, &lease), HOLDFAST_TIMEOUT);
    began.get_future().wait();
    at_failpoint("late_release.taken", [&go_on] {
      go_on.set_value();
      EXPECT_TRUE(comes_true([] { return !runs_unlock_thread(); }));
    });
    EXPECT_FALSE(LateReleases::get().retry());
    inside.say("go on");
    EXPECT_EQ(inside.wait(), 0);
    EXPECT_TRUE(comes_true([] { return !LateReleases::any() && !runs_unlock_thread(); }));
    EXPECT_EQ(take(), HOLDFAST_OK);
  });
}

}  // namespace
}  // namespace holdfast::test
