// Tests readers that want to become the writer while one of them is held or killed between the steps of its wait.
#include <gtest/gtest.h>

#include <functional>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/shard_check.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 30;

class InterleaveReaders : public testing::Test {
 protected:
  class Waiter : public Parked {
   public:
    holdfast_wait& wait() { return wait_; }
  };

  /// Runs a reader that is held in its first step, after it has queued and before it sleeps. The reader then waits
  /// until it is the writer, reports this, and releases the lock when it gets a line.
  static int become_writer(Channel& parent) {
    Dict dict("locks");
    holdfast_lease lease{};
    if (dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &lease) != HOLDFAST_OK) return 1;
    parent.say("reads");
    parent.hear();
    pause_at("wait.settle", parent);
    parent.say(holdfast_code_text(wait_to_upgrade(dict, lease)));
    parent.hear();
    return dict.unlock("key", &lease) == HOLDFAST_OK ? 0 : 2;
  }
  static int wait_to_upgrade(Dict& dict, const holdfast_lease& lease) {
    Waiter waiter;
    int code = HOLDFAST_LOCKED;
    for (const double end = now() + kLong; now() < end;) {
      code = dict.upgrade("key", lease, &waiter.wait());
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
      waiter.sleep(waiter.sleep_time());
    }
    return code;
  }
  /// Runs `test` in a new process while the first reader is held.
  static void beside_first(const std::function<void(Dict&, holdfast_lease&, Started&)>& test) {
    in_process([&] {
      Dict dict("locks");
      holdfast_lease mine{};
      ASSERT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &mine), HOLDFAST_OK);
      Started first("reads", become_writer);
      ASSERT_EQ(first.ask("go on"), "at wait.settle");
      test(dict, mine, first);
      EXPECT_EQ(check_segment(dict.segment()), "");
    });
  }

  const ScratchDirectory directory_;
};

TEST_F(InterleaveReaders, the_second_gets_deadlock_while_the_first_is_held_before_its_sleep) {
  beside_first([](Dict& dict, holdfast_lease& mine, Started& first) {
    EXPECT_EQ(dict.upgrade("key", mine), HOLDFAST_DEADLOCK);
    EXPECT_EQ(wait_to_upgrade(dict, mine), HOLDFAST_DEADLOCK);
    holdfast_lease none{};
    EXPECT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &none), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.unlock("key", &mine), HOLDFAST_OK) << "the release comes before the first reader sleeps";
    EXPECT_EQ(first.ask("go on"), "ok");
    EXPECT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &none), HOLDFAST_LOCKED);
    first.say("unlock");
    EXPECT_EQ(first.wait(), 0);
  });
}

TEST_F(InterleaveReaders, the_death_of_the_first_lets_the_second_become_the_writer) {
  beside_first([](Dict& dict, holdfast_lease& mine, Started& first) {
    first.kill_and_wait();
    EXPECT_EQ(wait_to_upgrade(dict, mine), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("key", &mine), HOLDFAST_OK);
    EXPECT_EQ(dict.used("key"), 0);
  });
}

// If the first reader does not respond in time, it counts as late, and another reader takes its position.
TEST_F(InterleaveReaders, one_that_is_held_for_too_long_gets_deadlock_when_it_continues) {
  beside_first([](Dict& dict, holdfast_lease& mine, Started& first) {
    EXPECT_EQ(dict.unlock("key", &mine), HOLDFAST_OK) << "the release wakes the first reader";
    holdfast_lease third{};
    int code = HOLDFAST_LOCKED;
    for (const double end = now() + kLong; code == HOLDFAST_LOCKED && now() < end;)
      code = dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &third);
    ASSERT_EQ(code, HOLDFAST_OK);
    Waiter waiter;
    EXPECT_EQ(dict.upgrade("key", third, &waiter.wait()), HOLDFAST_LOCKED);
    EXPECT_EQ(first.ask("go on"), "deadlock");
    first.say("unlock");
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(dict.upgrade("key", third, &waiter.wait()), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("key", &third), HOLDFAST_OK);
  });
}

}  // namespace
}  // namespace holdfast::test
