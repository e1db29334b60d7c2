// Tests that a waiter may die anywhere in the queue, chosen or not: the other waiters get the key, and no trace of the
// dead waiter remains.
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <vector>

#include "death/contender.h"
#include "lock/request.h"

namespace holdfast::test {
namespace {

class WaitersTest : public DeathTest {
 protected:
  /// Queues this many waiters in order.
  std::vector<std::unique_ptr<Child>> queue_of(std::size_t count) {
    std::vector<std::unique_ptr<Child>> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(waiter());
      EXPECT_EQ(all.back()->hear(), kLocked);
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(, WaitersTest, ::testing::ValuesIn(kExclusiveWays), name_of_way);

TEST_P(WaitersTest, dead_waiters_in_a_queue_delay_nobody) {
  constexpr std::size_t kWaiters = 5;
  const std::set<std::size_t> kDead[] = {{0}, {2}, {4}, {0, 1}, {1, 3}, {0, 1, 2, 3}, {0, 1, 2, 4}, {0, 1, 2, 3, 4}};
  for (const auto& dead : kDead) {
    Contender first(GetParam(), dict);
    ASSERT_EQ(first.take(), HOLDFAST_OK);
    const auto all = queue_of(kWaiters);
    for (const std::size_t i : dead) all[i]->kill();
    EXPECT_EQ(first.release(), HOLDFAST_OK);
    std::vector<Child*> alive;
    for (std::size_t i = 0; i < kWaiters; ++i)
      if (dead.count(i) == 0) alive.push_back(all[i].get());
    expect_served(alive);
    EXPECT_EQ(first.wait(kLong), HOLDFAST_OK) << "the lock is reserved for a dead process";
    EXPECT_EQ(first.release(), HOLDFAST_OK);
  }
}

TEST_P(WaitersTest, dead_waiters_leave_the_queue_when_the_key_is_used) {
  constexpr std::size_t kWaiters = 4;
  Contender first(GetParam(), dict);
  ASSERT_EQ(first.take(), HOLDFAST_OK);
  {
    const auto all = queue_of(kWaiters);
    EXPECT_EQ(waiters(), kWaiters);
  }
  EXPECT_EQ(first.release(), HOLDFAST_OK);
  // The first uses of the key overtake the dead waiter, because it might still claim the key.
  for (int uses = 0; waiters() != 0; ++uses) {
    ASSERT_LT(uses, 1000);
    ASSERT_EQ(first.wait(kLong), HOLDFAST_OK);
    ASSERT_EQ(first.release(), HOLDFAST_OK);
  }
}

TEST_P(WaitersTest, the_death_of_the_chosen_waiter_delays_nobody) {
  for (const bool stopped : {false, true}) {
    for (const int waited_ms : {0, 5}) {  // the waiter is woken on the fast path, or the key is reserved for it
      Contender first(GetParam(), dict);
      ASSERT_EQ(first.take(), HOLDFAST_OK);
      const auto chosen = start_sluggish_waiter(GetParam(), dict);
      ASSERT_EQ(chosen->hear(), kLocked);
      sleep_ms(waited_ms);
      if (stopped) stop(*chosen);
      const auto others = queue_of(3);
      EXPECT_EQ(first.release(), HOLDFAST_OK);
      chosen->kill();
      expect_served(pointers(others));
    }
  }
}

TEST_P(WaitersTest, a_woken_waiter_that_never_responds_delays_nobody) {
  Contender holds(GetParam(), dict);
  Contender absent(GetParam(), dict);
  Contender waits(GetParam(), dict);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(holds.take(), HOLDFAST_OK);
    ASSERT_EQ(absent.queue(), HOLDFAST_LOCKED);
    ASSERT_EQ(waits.queue(), HOLDFAST_LOCKED);
    ASSERT_EQ(holds.release(), HOLDFAST_OK);
    ASSERT_EQ(waits.wait(kLong), HOLDFAST_OK);
    ASSERT_EQ(waits.release(), HOLDFAST_OK);
    ASSERT_EQ(absent.leave(), HOLDFAST_OK);
  }
  EXPECT_EQ(waiters(), 0U);
}

TEST_P(WaitersTest, after_each_of_several_dead_holders_another_waiter_gets_the_lock) {
  constexpr std::size_t kWaiters = 6;
  const auto first = holder();
  ASSERT_EQ(first->hear(), kOk);
  const auto all = queue_of(kWaiters);
  // A chosen waiter that is delayed for longer than this is passed over, and gets the key later.
  bool in_time = true;
  double killed = now();
  first->kill();
  for (auto left = pointers(all); !left.empty();) {
    const auto next = first_to_speak(left);
    ASSERT_NE(next, left.end()) << left.size() << " left";
    in_time = in_time && now() - killed < kClaimSeconds;
    if (GetParam().fair != 0 && in_time) {
      EXPECT_EQ(next, left.begin()) << "the waiters are not served in order of arrival";
    }
    EXPECT_EQ((*next)->hear(), kOk);
    killed = now();
    (*next)->kill();
    left.erase(next);
  }
  Contender last(GetParam(), dict);
  EXPECT_EQ(last.wait(kLong), HOLDFAST_OK);
  EXPECT_EQ(last.release(), HOLDFAST_OK);
}

}  // namespace
}  // namespace holdfast::test
