// Tests that stopped processes (by SIGSTOP, a debugger or a frozen container) count as alive: they keep their locks,
// and only processes that want these locks wait for them.
#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "death/contender.h"

namespace holdfast::test {
namespace {

class StoppedTest : public DeathTest {};

INSTANTIATE_TEST_SUITE_P(, StoppedTest, ::testing::ValuesIn(kExclusiveWays), name_of_way);

TEST_P(StoppedTest, a_stopped_holder_without_exptime_keeps_its_lock_and_waiters_time_out) {
  const auto stopped = holder();
  ASSERT_EQ(stopped->hear(), kOk);
  stop(*stopped);
  const auto patient = waiter();
  ASSERT_EQ(patient->hear(), kLocked);
  std::vector<std::unique_ptr<Child>> others;
  // The longest timeout exceeds the time for which an absent waiter stays in the queue.
  for (const double timeout : {0.0, 0.1, 1.0, 3.5}) others.push_back(waiter(timeout));
  for (const auto& other : others) {
    EXPECT_EQ(other->hear(), kLocked) << "the waiter did not queue";
    EXPECT_EQ(other->hear(), kLocked) << "the waiter did not give up";
  }
  EXPECT_EQ(waiters(), 1U) << "a waiter that gave up is still in the queue";
  stopped->signal(SIGCONT);
  EXPECT_EQ(stopped->ask("release"), kOk) << "the holder lost the key";
  EXPECT_EQ(patient->hear(), kOk);
  EXPECT_EQ(patient->ask("release"), kOk);
}

TEST_P(StoppedTest, a_stopped_holder_with_an_exptime_keeps_its_lock_until_it_expires) {
  constexpr double kExptime = 1;
  const double taken = now();
  const auto stopped = holder(kExptime);
  ASSERT_EQ(stopped->hear(), kOk);
  stop(*stopped);
  const auto impatient = waiter(0.2);
  const auto patient = waiter();
  // On a busy machine, either process may be so late that the lock has expired.
  const auto gets_it = [&](Child& one) {
    bool got = false;
    for (int said = 0; said < 2; ++said) {
      const std::string line = one.hear();
      got = line == kOk;
      if (got)
        EXPECT_GE(now() - taken, kExptime);
      else
        EXPECT_EQ(line, kLocked);
    }
    return got;
  };
  if (gets_it(*impatient)) {
    EXPECT_EQ(impatient->ask("release"), kOk);
  }
  EXPECT_TRUE(gets_it(*patient));
  stopped->signal(SIGCONT);
  EXPECT_EQ(stopped->ask("release"), kNotOwner);
  EXPECT_EQ(patient->ask("release"), kOk) << "the late release took the key from its new holder";
}

TEST_P(StoppedTest, a_waiter_chosen_while_it_is_stopped_delays_nobody_for_long) {
  for (const int waited_ms : {0, 5}) {  // the waiter is woken on the fast path, or the key is reserved for it
    const auto first = holder();
    ASSERT_EQ(first->hear(), kOk);
    const auto stopped = waiter();
    ASSERT_EQ(stopped->hear(), kLocked);
    sleep_ms(waited_ms);
    stop(*stopped);
    std::vector<std::unique_ptr<Child>> others;
    for (int i = 0; i < 3; ++i) {
      others.push_back(waiter());
      ASSERT_EQ(others.back()->hear(), kLocked);
    }
    EXPECT_EQ(first->ask("release"), kOk);
    expect_served(pointers(others));
    stopped->signal(SIGCONT);
    EXPECT_EQ(stopped->hear(), kOk) << "the waiter does not take the key after it continues";
    EXPECT_EQ(stopped->ask("release"), kOk);
  }
}

TEST_P(StoppedTest, a_stopped_waiter_in_mid_queue_delays_nobody_for_long) {
  const auto first = holder();
  ASSERT_EQ(first->hear(), kOk);
  constexpr std::size_t kWaiters = 5;
  constexpr std::size_t kStopped = 2;
  std::vector<std::unique_ptr<Child>> all;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    all.push_back(waiter());
    ASSERT_EQ(all.back()->hear(), kLocked);
  }
  stop(*all[kStopped]);
  EXPECT_EQ(first->ask("release"), kOk);
  std::vector<Child*> others = pointers(all);
  others.erase(others.begin() + kStopped);
  expect_served(others);
  all[kStopped]->signal(SIGCONT);
  EXPECT_EQ(all[kStopped]->hear(), kOk);
  EXPECT_EQ(all[kStopped]->ask("release"), kOk);
  EXPECT_EQ(waiters(), 0U);
}

TEST_P(StoppedTest, a_waiter_that_continues_after_losing_its_turn_does_not_hold_the_lock) {
  const auto first = holder();
  ASSERT_EQ(first->hear(), kOk);
  const auto stopped = waiter();
  ASSERT_EQ(stopped->hear(), kLocked);
  sleep_ms(5);
  stop(*stopped);
  const auto other = waiter();
  ASSERT_EQ(other->hear(), kLocked);
  EXPECT_EQ(first->ask("release"), kOk);
  ASSERT_EQ(other->hear(), kOk);
  stopped->signal(SIGCONT);
  const auto third = waiter(0.1);
  EXPECT_EQ(third->hear(), kLocked);
  EXPECT_EQ(third->hear(), kLocked);
  EXPECT_EQ(other->ask("release"), kOk) << "the holder lost the key";
  EXPECT_EQ(stopped->hear(), kOk);
  EXPECT_EQ(stopped->ask("release"), kOk);
}

}  // namespace
}  // namespace holdfast::test
