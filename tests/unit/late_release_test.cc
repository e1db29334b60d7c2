// Tests releases that failed because another process was stopped while it held the shard's mutex, and that the caller
// does not repeat.
#include <gtest/gtest.h>

#include "dict/guard.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint32_t kPermits = 1;

class TheDict : public Dict {
 public:
  TheDict() : Dict("late", {.size = 32768}) {}  // one shard

  int take() { return holdfast_permits_try(handle, "key", 3, HOLDFAST_SEMAPHORE, 1, kPermits, 0, 0, 0, &lease); }
  int give_back() { return holdfast_unlock_for_certain(handle, "key", 3, &lease); }
  std::uint32_t used() {
    std::uint32_t used = 0;
    std::uint32_t waiters = 0;
    EXPECT_EQ(holdfast_permits_count(handle, "key", 3, &used, &waiters), HOLDFAST_OK);
    return used;
  }

  holdfast_lease lease{};
};

/// A process that holds the shard's mutex until it gets a line, as if it were stopped. In the meantime, releases fail.
class StoppedInside : public Started {
 public:
  explicit StoppedInside(TheDict& refused)
      : Started("inside", [](Channel& parent) {
          TheDict dict;
          const ShardGuard guard(dict.segment().shards()[0]);
          parent.say("inside");
          parent.hear();
          return guard.held() ? 0 : 1;
        }) {
    EXPECT_EQ(refused.give_back(), HOLDFAST_TIMEOUT);
  }
};

class LateRelease : public testing::Test {
 protected:
  const ScratchDirectory directory_;
};

TEST_F(LateRelease, happens_when_the_stopped_process_continues_without_another_call) {
  in_process([] {
    TheDict dict;
    ASSERT_EQ(dict.take(), HOLDFAST_OK);
    StoppedInside stopped(dict);
    EXPECT_EQ(dict.lease.owner, 0U) << "the library took over the lease";
    Started watcher("watches", [](Channel& parent) {
      TheDict other;
      parent.say("watches");
      const bool came_free = eventually([&other] { return other.used() == 0; });
      parent.say(came_free ? "free" : "still held");
      return 0;
    });
    stopped.say("go on");
    EXPECT_EQ(watcher.hear(), "free");
  });
}

TEST_F(LateRelease, is_not_needed_if_no_process_is_stopped_inside) {
  in_process([] {
    TheDict dict;
    ASSERT_EQ(dict.take(), HOLDFAST_OK);
    const holdfast_lease lease = dict.lease;
    EXPECT_EQ(dict.give_back(), HOLDFAST_OK);
    EXPECT_EQ(dict.used(), 0U);
    dict.lease = lease;
    EXPECT_EQ(dict.give_back(), HOLDFAST_NOT_OWNER);
    EXPECT_EQ(dict.lease.owner, 0U);
  });
}

// The child inherits the record of the late release, but not the lease.
TEST_F(LateRelease, of_a_parent_is_left_to_the_parent) {
  in_process([] {
    TheDict dict;
    ASSERT_EQ(dict.take(), HOLDFAST_OK);
    StoppedInside stopped(dict);
    Child child([&dict](Channel& parent) {
      parent.say("forked");
      parent.hear();
      EXPECT_TRUE(eventually([&dict] { return dict.take() == HOLDFAST_OK; }));
      EXPECT_EQ(dict.give_back(), HOLDFAST_OK);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.hear(), "forked");
    stopped.say("go on");
    child.say("go on");
    EXPECT_EQ(child.wait(), 0);
  });
}

}  // namespace
}  // namespace holdfast::test
