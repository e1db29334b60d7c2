// Tests which waiter gets a lock that becomes free: the order of grants, how often a waiter is overtaken, and which
// waiter is woken.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "dict/guard.h"
#include "dict/lock_word.h"
#include "dict/repair.h"
#include "lock/handoff.h"
#include "support/dict_test.h"
#include "support/in_time.h"
#include "support/others.h"

namespace holdfast::test {
namespace {

constexpr int kClaimMs = static_cast<int>(kClaimNs / 1'000'000);

class FairnessTest : public DictTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
  }
  void queue_up(std::initializer_list<Waiting*> in_order) {
    for (Waiting* waiting : in_order) ASSERT_EQ(queue(*waiting), HOLDFAST_LOCKED);
  }
  int queue(Waiting& waiting) { return waiting.once(dict, "k", &lease); }
  void release(holdfast_lease* which) { ASSERT_EQ(dict.unlock("k", which), HOLDFAST_OK); }
  /// Releases the lock and takes it again with this exptime.
  void hold_for(double seconds) {
    release(&held);
    ASSERT_EQ(dict.try_lock("k", seconds, &held), HOLDFAST_OK);
  }
  /// Tries to take the lock without queueing.
  int try_it(bool fair = false) { return holdfast_lock_try(dict.handle, "k", 1, 0, 0, fair ? 1 : 0, &other); }
  std::uint32_t waiters() { return count_shard(dict.segment().shards()[0]).waiters; }
  std::uint64_t wakes() { return dict.stats().lock_wakes; }
  /// Repairs the shard, as if a process had died in the middle of a change.
  void repair_it() {
    Shard& shard = dict.segment().shards()[0];
    const ShardGuard guard(shard);
    repair(shard);
  }
  /// Checks that `first` gets the lock before `second`. REQUIRES: both waiters are in the queue.
  void expect_served_first(Waiting& first, Waiting& second, holdfast_lease* holding) {
    EXPECT_EQ(waiters(), 2U);
    sleep_ms(1);
    release(holding);
    EXPECT_EQ(second.once(dict, "k", &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
  }
  bool has_fast_path() { return !load_word_of(place_of("k").view.lock()).is_mutex_owned(); }
  /// Makes an operation under the mutex that changes nothing else. REQUIRES: `old` is a lease that has ended.
  void take_fast_path_away(const holdfast_lease& old) { ASSERT_NE(dict.renew("k", old, 1), HOLDFAST_OK); }
  /// Returns how often new requests get the lock under the mutex before a waiter that has just begun to wait. Returns 0
  /// if counting took so long that the waiter may count as late, because any number of requests may overtake a late
  /// waiter.
  std::uint32_t passes_of_a_newcomer() {
    Waiting first;
    EXPECT_EQ(queue(first), HOLDFAST_LOCKED);
    const holdfast_lease old = held;
    const double start = now();
    release(&held);
    std::uint32_t overtakes = 0;
    for (; overtakes <= kOvertakesMax; ++overtakes) {
      take_fast_path_away(old);
      if (try_it() != HOLDFAST_OK) break;
      release(&other);
    }
    const bool late = (now() - start) * kNsPerSecond >= kFirstClaimNs;
    EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK) << "the lock is not reserved for the waiter";
    return late ? 0 : overtakes;
  }

  /// Queues and wakes the waiter, and takes the lock as `other` before the waiter does. Whenever this test is too slow,
  /// tries again. Returns false if it never succeeds.
  bool is_passed(Waiting& first) {
    for (int round = 0; round < 1000; ++round) {
      if (queue(first) != HOLDFAST_LOCKED || dict.unlock("k", &held) != HOLDFAST_OK) return false;
      if (try_it() == HOLDFAST_OK) return true;
      if (first.once(dict, "k", &held) != HOLDFAST_OK) return false;
    }
    return false;
  }

  holdfast_lease held{};
  holdfast_lease other{};
  holdfast_lease lease{};
};

TEST_IN_TIME(FairnessTest, the_first_waiter_is_overtaken_at_most_a_fixed_number_of_times) {
  std::uint32_t most = 0;
  // In a slow round, the lock is reserved for the waiter after fewer overtakes.
  for (int round = 0; round < 1000 && most < kOvertakesMax; ++round) {
    const std::uint32_t overtakes = passes_of_a_newcomer();
    ASSERT_LE(overtakes, kOvertakesMax);
    most = std::max(most, overtakes);
  }
  EXPECT_EQ(most, kOvertakesMax);
}

TEST_IN_TIME(FairnessTest, others_need_no_mutex_until_a_woken_waiter_comes) {
  Waiting first;
  Waiting second;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  EXPECT_FALSE(has_fast_path());
  ASSERT_TRUE(is_passed(first));
  EXPECT_TRUE(has_fast_path());
  ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
  EXPECT_FALSE(has_fast_path()) << "a new waiter relies on the release";
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&other);
  EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK);
  EXPECT_FALSE(has_fast_path()) << "the second waiter was not woken";
}

TEST_IN_TIME(FairnessTest, a_release_without_the_mutex_wakes_a_waiter_that_is_due) {
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&held);
  ASSERT_EQ(first.once(dict, "k", &held), HOLDFAST_OK) << "the waiter could not show that it is prompt";
  ASSERT_TRUE(is_passed(first));
  sleep_ms(1);
  release(&other);
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED) << "the lock is not reserved for the waiter";
  EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_fair_request_does_not_use_the_fast_path_of_others) {
  release(&held);
  holdfast_bound bound{};
  ASSERT_EQ(holdfast_lock_bind(dict.handle, "k", 1, 0, 0, HOLDFAST_HOW_FAIR, &bound), HOLDFAST_OK);
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&bound.lease);
  if (!has_fast_path()) return;  // the test is too slow
  EXPECT_EQ(holdfast_lock_again(dict.handle, "k", 1, 0, 0, &bound), 0);
  EXPECT_EQ(try_it(true), HOLDFAST_LOCKED);
  EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_waiter_that_finds_the_lock_free_leaves_the_queue) {
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&held);
  EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK);
  EXPECT_EQ(waiters(), 0U);
}

TEST_IN_TIME(FairnessTest, a_waiter_becomes_the_first_when_the_previous_one_gets_the_lock) {
  Waiting first;
  Waiting second;
  queue_up({&first, &second});
  sleep_ms(1);
  release(&held);
  ASSERT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
  sleep_ms(1);
  release(&lease);
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED);
  EXPECT_EQ(second.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, nobody_overtakes_a_fair_waiter) {
  Waiting first(true);
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&held);
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED);
  Waiting second;
  EXPECT_EQ(queue(second), HOLDFAST_LOCKED);
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_fair_request_overtakes_nobody) {
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  release(&held);
  EXPECT_EQ(try_it(true), HOLDFAST_LOCKED);
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED) << "the fair request must have reserved the lock for the waiter";
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, fair_waiters_are_served_in_strict_order_of_arrival) {
  std::array<Waiting, 5> all{Waiting(true), Waiting(true), Waiting(true), Waiting(true), Waiting(true)};
  for (Waiting& one : all) ASSERT_EQ(queue(one), HOLDFAST_LOCKED);
  release(&held);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t later = all.size() - 1; later > i; --later)
      ASSERT_EQ(all[later].once(dict, "k", &lease), HOLDFAST_LOCKED) << later << " before " << i;
    ASSERT_EQ(all[i].once(dict, "k", &lease), HOLDFAST_OK) << i;
    release(&lease);
  }
  EXPECT_EQ(waiters(), 0U);
}

TEST_IN_TIME(FairnessTest, the_loser_of_a_race_keeps_its_position) {
  Waiting first;
  Waiting second;
  ASSERT_TRUE(is_passed(first));
  ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED) << "the waiter did not lose the race";
  expect_served_first(first, second, &other);
}

TEST_IN_TIME(FairnessTest, a_waiter_is_woken_once_until_it_responds) {
  Waiting first;
  ASSERT_TRUE(is_passed(first));
  const std::uint64_t before = wakes();
  release(&other);
  while (try_it() == HOLDFAST_OK) release(&other);
  EXPECT_EQ(wakes(), before) << "a waiter that is already woken was woken again";
  EXPECT_TRUE(first.sleep(20));
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_waiter_that_responded_and_lost_is_woken_again) {
  Waiting first;
  ASSERT_TRUE(is_passed(first));
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  const std::uint64_t before = wakes();
  release(&other);
  EXPECT_EQ(wakes(), before + 1);
  EXPECT_TRUE(first.sleep(20));
}

TEST_IN_TIME(FairnessTest, a_woken_waiter_that_does_not_respond_is_overtaken_but_keeps_its_turn) {
  for (const bool kept :
       {false, true}) {  // whether the lock is granted to the first waiter, or free for the faster one
    Waiting first;
    Waiting second;
    ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
    release(&held);
    ASSERT_EQ(first.once(dict, "k", &held), HOLDFAST_OK) << "the waiter could not show that it is prompt";
    ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
    ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
    if (kept) sleep_ms(1);
    release(&held);
    sleep_ms(kClaimMs + 10);
    ASSERT_EQ(second.once(dict, "k", &held), HOLDFAST_OK);
    EXPECT_EQ(waiters(), 0U) << "the first waiter must count as gone";
    Waiting third;
    ASSERT_EQ(queue(third), HOLDFAST_LOCKED);
    ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
    release(&held);
    EXPECT_EQ(third.once(dict, "k", &lease), HOLDFAST_LOCKED) << "the third waiter overtook the first";
    EXPECT_EQ(first.once(dict, "k", &held), HOLDFAST_OK);
    EXPECT_EQ(third.leave(dict, "k"), HOLDFAST_OK);
  }
}

TEST_IN_TIME(FairnessTest, a_woken_waiter_that_leaves_wakes_the_next) {
  for (const bool kept : {false, true}) {
    Waiting first;
    Waiting second;
    ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
    ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
    if (kept) sleep_ms(1);
    const std::uint64_t before = wakes();
    release(&held);
    ASSERT_EQ(first.leave(dict, "k"), HOLDFAST_OK);
    EXPECT_EQ(wakes(), before + 2);
    EXPECT_TRUE(second.sleep(20));
    EXPECT_EQ(second.once(dict, "k", &held), HOLDFAST_OK);
  }
}

TEST_IN_TIME(FairnessTest, a_waiter_that_leaves_the_middle_of_the_queue_wakes_nobody) {
  Waiting first;
  Waiting second;
  queue_up({&first, &second});
  release(&held);
  const std::uint64_t before = wakes();
  EXPECT_EQ(second.leave(dict, "k"), HOLDFAST_OK);
  EXPECT_EQ(wakes(), before);
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, an_expired_leases_lock_goes_to_the_first_waiter) {
  hold_for(0.1);
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  sleep_ms(120);
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED);
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_waiter_that_lost_its_position_still_takes_the_lock_if_it_comes_first) {
  hold_for(0.2);
  Waiting first;
  Waiting second;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  repair_it();
  ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
  sleep_ms(220);
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_grant_to_a_dead_waiter_moves_to_the_next_immediately) {
  Queued doomed(dict);
  Waiting second;
  ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
  sleep_ms(1);
  release(&held);
  ASSERT_EQ(doomed.kill_and_wait(), 128 + SIGKILL);
  EXPECT_EQ(queue(second), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, a_queue_that_a_repair_dropped_is_filled_again_in_order_of_arrival) {
  Waiting first;
  Waiting second;
  queue_up({&first, &second});
  repair_it();
  EXPECT_EQ(waiters(), 0U);
  ASSERT_EQ(queue(second), HOLDFAST_LOCKED);
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  expect_served_first(first, second, &held);
}

TEST_IN_TIME(FairnessTest, a_repair_does_not_revoke_grants) {
  Waiting first;
  ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  sleep_ms(1);
  release(&held);
  repair_it();
  EXPECT_EQ(try_it(), HOLDFAST_LOCKED);
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_IN_TIME(FairnessTest, each_wait_is_counted_once_when_it_queues) {
  Waiting first;
  const std::uint64_t before = dict.stats().lock_waits;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(queue(first), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.stats().lock_waits, before + 1);
  ASSERT_EQ(first.leave(dict, "k"), HOLDFAST_OK);
  release(&held);
  ASSERT_EQ(queue(first), HOLDFAST_OK);
  EXPECT_EQ(dict.stats().lock_waits, before + 1) << "a request that did not have to wait was counted";
}

}  // namespace
}  // namespace holdfast::test
