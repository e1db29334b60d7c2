// In which order permits are given.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lock/handoff.h"
#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// --- order ---

TEST_IN_TIME(PermitsTest, readers_that_come_after_a_waiting_writer_wait_behind_it) {
  holdfast_lease reader{};
  ASSERT_EQ(read(&reader), HOLDFAST_OK);
  Writer writer(dict);
  ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
  holdfast_lease late{};
  EXPECT_EQ(read(&late), HOLDFAST_LOCKED);
  Reader behind(dict);
  EXPECT_EQ(behind.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(reader), HOLDFAST_OK);
  EXPECT_EQ(read(&late), HOLDFAST_LOCKED) << "the writer was woken, and is the next";
  EXPECT_EQ(behind.wait(), HOLDFAST_LOCKED);
  EXPECT_TRUE(writer.is_woken());
  EXPECT_EQ(writer.wait(), HOLDFAST_OK);
  EXPECT_EQ(post(writer.lease), HOLDFAST_OK);
  EXPECT_TRUE(behind.is_woken());
  EXPECT_EQ(behind.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, readers_are_not_starved_by_writers) {
  Writer writers[3] = {Writer(dict), Writer(dict), Writer(dict)};
  ASSERT_EQ(writers[0].wait(), HOLDFAST_OK);
  ASSERT_EQ(writers[1].wait(), HOLDFAST_LOCKED);
  Reader reader(dict);
  ASSERT_EQ(reader.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(writers[0].lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(writers[1].wait(), HOLDFAST_OK);
  EXPECT_EQ(post(writers[1].lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.wait(), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(reader.lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, one_release_lets_all_readers_in_each_woken_by_the_one_before) {
  holdfast_lease writer{};
  ASSERT_EQ(write(&writer), HOLDFAST_OK);
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 5; ++i) {
    readers.push_back(std::make_unique<Reader>(dict));
    ASSERT_EQ(readers.back()->wait(), HOLDFAST_LOCKED);
  }
  EXPECT_EQ(dict.waiters("key"), 5);
  const std::uint64_t wakes = dict.stats().lock_wakes;
  EXPECT_EQ(post(writer), HOLDFAST_OK);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    EXPECT_TRUE(readers[i]->is_woken());
    for (std::size_t behind = i + 1; behind < readers.size(); ++behind) EXPECT_FALSE(readers[behind]->is_woken());
    EXPECT_EQ(readers[i]->wait(), HOLDFAST_OK);
  }
  EXPECT_EQ(dict.stats().lock_wakes - wakes, 5U) << "one wake-up for each grant";
  EXPECT_EQ(dict.waiters("key"), 0);
}

TEST_IN_TIME(PermitsTest, a_waiter_for_little_does_not_overtake_one_for_more_than_there_is) {
  holdfast_lease two = acquired(2);
  Taker large(dict, 3);
  ASSERT_EQ(large.wait(), HOLDFAST_LOCKED);
  holdfast_lease small{};
  EXPECT_EQ(acquire(1, &small), HOLDFAST_LOCKED);
  Taker behind(dict, 1);
  EXPECT_EQ(behind.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(large.leave(), HOLDFAST_OK);
  EXPECT_TRUE(behind.is_woken()) << "a waiter that leaves makes way";
  EXPECT_EQ(behind.wait(), HOLDFAST_OK);
  post(two);
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_is_passed_for_a_short_time_and_a_fair_one_never) {
  for (const bool fair : {false, true}) {
    SCOPED_TRACE(fair);
    holdfast_lease lease = acquired(3);
    Taker first(dict, 1, fair);
    ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
    if (!fair) sleep_ms(1);
    dict.unlock("key", &lease);
    EXPECT_EQ(acquire(1, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(first.wait(), HOLDFAST_OK);
    EXPECT_EQ(post(first.lease), HOLDFAST_OK);
  }
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_is_passed_a_few_times_at_most) {
  std::uint32_t most = 0;
  for (int round = 0; round < 50; ++round) {
    holdfast_lease lease = acquired(3);
    Taker first(dict);
    ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
    dict.unlock("key", &lease);
    std::uint32_t passed = 0;
    while (acquire(1, &lease) == HOLDFAST_OK) {
      ++passed;
      dict.unlock("key", &lease);
    }
    most = std::max(most, passed);
    ASSERT_LE(passed, kOvertakesMax);
    ASSERT_EQ(first.wait(), HOLDFAST_OK);
    ASSERT_EQ(post(first.lease), HOLDFAST_OK);
  }
  EXPECT_GT(most, 0U) << "short sections go on while a waiter wakes up";
}

TEST_IN_TIME(PermitsTest, nobody_passes_a_fair_waiter_behind_the_first) {
  holdfast_lease one = acquired(1);
  Taker large(dict, 3);
  Taker fair(dict, 1, true);
  ASSERT_EQ(large.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(fair.wait(), HOLDFAST_LOCKED);
  dict.unlock("key", &one);
  holdfast_lease late{};
  EXPECT_EQ(acquire(1, &late), HOLDFAST_LOCKED) << "the second waiter is fair";
  EXPECT_EQ(large.wait(), HOLDFAST_OK);
  EXPECT_EQ(post(large.lease), HOLDFAST_OK);
  EXPECT_EQ(fair.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_that_does_not_come_is_out_of_the_queue_after_a_while) {
  holdfast_lease lease = acquired(3);
  Taker first(dict, 1);
  Taker second(dict, 3);
  ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(second.wait(), HOLDFAST_LOCKED);
  post(lease);
  EXPECT_EQ(second.wait(), HOLDFAST_LOCKED);
  sleep_ms(80);
  EXPECT_TRUE(second.is_woken(5)) << "it sees by itself that the first one does not come";
  EXPECT_EQ(second.wait(), HOLDFAST_OK);
  EXPECT_EQ(first.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(second.lease), HOLDFAST_OK);
  EXPECT_EQ(first.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, a_waiter_of_a_dead_process_is_not_waited_for) {
  holdfast_lease reader{};
  ASSERT_EQ(read(&reader), HOLDFAST_OK);
  Started child(std::to_string(HOLDFAST_LOCKED), [&](Channel& channel) {
    Writer writer(dict);
    channel.say(std::to_string(writer.wait()));
    ::pause();
    return 0;
  });
  holdfast_lease late{};
  EXPECT_EQ(read(&late), HOLDFAST_LOCKED);
  child.kill_and_wait();
  EXPECT_EQ(read(&late), HOLDFAST_OK);
  EXPECT_EQ(dict.waiters("key"), 0);
}

}  // namespace
}  // namespace holdfast::test
