// Tests leases and waits for them, through the C ABI, with real processes.
#include "lock/lock.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/dict_test.h"
#include "support/in_time.h"
#include "support/others.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

class LockTest : public DictTest {
 protected:
  holdfast_lease lease{};
  holdfast_lease other{};
};

// Tests in which a failed attempt is never repeated, because no delay can explain the failure, or because the race that
// they look for shows only by chance.
class LockRaceTest : public LockTest {};

// --- one process ---

// The first lock is taken under the mutex, and all others without it.
TEST_IN_TIME(LockTest, a_lease_ends_at_most_a_millisecond_late_or_a_second_if_it_lasts_ten) {
  for (const double exptime : {0.5, 2.0, 9.9, 10.0, 100.0}) {
    ASSERT_EQ(dict.try_lock("k", exptime, &lease), HOLDFAST_OK);
    EXPECT_LE(dict.remaining("k", lease), exptime + (exptime < 10.0 ? 0.00101 : 1.00101));
    ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  }
}

TEST_IN_TIME(LockTest, renewing_reports_whether_another_process_has_the_lost_lock) {
  const auto renewed_after = [&](auto&& loss) {
    dict.remove("k");
    EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    loss();
    return dict.renew("k", lease, 50);
  };
  const auto release = [&] {
    other = lease;
    dict.unlock("k", &other);
  };
  EXPECT_EQ(renewed_after(release), HOLDFAST_NOT_FOUND);
  EXPECT_EQ(renewed_after([&] { dict.set("k", "v", 1000); }), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(dict.get("k"), text("v")) << "the renewal changed the value";
  EXPECT_LE(dict.ttl("k"), 1000);
  const auto overwrite_for_a_moment = [&] {
    dict.set("k", "v", 0.001);
    sleep_ms(20);
  };
  EXPECT_EQ(renewed_after(overwrite_for_a_moment), HOLDFAST_NOT_FOUND);
}

TEST_IN_TIME(LockTest, an_expired_lease_ends_no_later_grant_of_its_process) {
  ASSERT_EQ(dict.try_lock("k", 0.001, &lease), HOLDFAST_OK);
  sleep_ms(20);
  ASSERT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(dict.unlock("k", &other), HOLDFAST_OK);
}

// This is also true after a flush, after a removal of the lock, and when a block of numbers is used up.
TEST_IN_TIME(LockTest, fencing_numbers_grow_with_every_grant_of_a_key_and_never_repeat) {
  std::map<std::string, std::uint64_t> last;
  std::set<std::uint64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "k" + std::to_string(i % 7);
    ASSERT_EQ(dict.try_lock(key, 0, &lease), HOLDFAST_OK);
    ASSERT_GT(lease.sequence, last[key]);
    ASSERT_LT(lease.sequence, std::uint64_t{1} << 53);
    ASSERT_TRUE(all.insert(lease.sequence).second) << lease.sequence;
    last[key] = lease.sequence;
    if (i % 5003 == 0)
      dict.remove(key);
    else
      ASSERT_EQ(dict.unlock(key, &lease), HOLDFAST_OK);
    if (i % 7001 == 49) dict.flush_all();
  }
}

// --- the same lock again ---

class LockAgainTest : public LockTest {
 protected:
  int bind() { return holdfast_lock_bind(dict.handle, "k", 1, 0, 0, 0, &bound); }
  bool again(double exptime = 0) { return holdfast_lock_again(dict.handle, "k", 1, exptime, 0, &bound) == 1; }
  bool unlock_again() { return holdfast_unlock_again(dict.handle, "k", 1, &bound) == 1; }
  int unlock() { return dict.unlock("k", &bound.lease); }
  /// Takes the lock, so that its place is known. The first grant of a lock is made under the mutex.
  void take() {
    for (int i = 0; i < 2 && bound.place[0] == 0; ++i) {
      if (bound.lease.owner != 0) {
        ASSERT_EQ(unlock(), HOLDFAST_OK);
      }
      ASSERT_EQ(bind(), HOLDFAST_OK);
    }
    ASSERT_NE(bound.place[0], 0U);
  }
  /// Leaves a free lock whose place is known.
  void know() {
    bound.place[0] = 0;
    take();
    ASSERT_TRUE(unlock_again());
    ASSERT_TRUE(again() && unlock_again());
  }

  holdfast_bound bound{};
};

TEST_IN_TIME(LockAgainTest, excludes_and_gets_greater_tokens_without_a_search) {
  know();
  std::uint64_t last = 0;
  int searches = 0;
  for (int i = 0; i < 5000; ++i) {
    if (!again()) {  // the block of tokens is used up
      ++searches;
      ASSERT_EQ(bind(), HOLDFAST_OK);
    }
    ASSERT_GT(bound.lease.sequence, last);
    last = bound.lease.sequence;
    ASSERT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_LOCKED);
    ASSERT_TRUE(unlock_again() || unlock() == HOLDFAST_OK);
    ASSERT_EQ(bound.lease.owner, 0U);
  }
  EXPECT_LE(searches, 20);
}

TEST_IN_TIME(LockAgainTest, takes_nothing_that_is_no_longer_a_free_lock_in_its_place) {
  know();
  ASSERT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_OK);
  EXPECT_FALSE(again()) << "the lock is held";
  EXPECT_EQ(dict.unlock("k", &other), HOLDFAST_OK);
  EXPECT_TRUE(again() && unlock_again());

  dict.remove("k");
  EXPECT_FALSE(again()) << "the lock was deleted";
  EXPECT_EQ(dict.try_lock("j", 0, &other), HOLDFAST_OK) << "the new lock is probably in the same place";
  EXPECT_EQ(dict.unlock("j", &other), HOLDFAST_OK);
  EXPECT_FALSE(again()) << "the place has another key's lock";

  know();
  ASSERT_EQ(dict.set("k", "value"), HOLDFAST_OK);
  EXPECT_FALSE(again()) << "the key has a value";
  EXPECT_EQ(bind(), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.get("k"), text("value"));
  dict.remove("k");

  know();
  ASSERT_EQ(dict.set("j", "value"), HOLDFAST_OK);
  dict.remove("j");
  EXPECT_FALSE(again()) << "memory was released";
  EXPECT_EQ(bind(), HOLDFAST_OK);
  EXPECT_TRUE(unlock_again() && again() && unlock_again());
}

TEST_IN_TIME(LockAgainTest, releases_nothing_that_a_release_under_the_mutex_must_see) {
  take();
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_FALSE(unlock_again()) << "the lock has a waiter";
  EXPECT_EQ(unlock(), HOLDFAST_OK);
  EXPECT_TRUE(waiting.sleep(20));
  EXPECT_EQ(waiting.lock(dict, "k", 20, &other), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &other), HOLDFAST_OK);

  know();
  ASSERT_TRUE(again());
  ASSERT_EQ(dict.explain("k", bound.lease, "a reason"), HOLDFAST_OK);
  EXPECT_FALSE(unlock_again()) << "the lock has a reason";
  EXPECT_EQ(unlock(), HOLDFAST_OK);

  know();
  ASSERT_TRUE(again());
  dict.flush_all();
  EXPECT_FALSE(unlock_again()) << "the lock was flushed";
  EXPECT_EQ(unlock(), HOLDFAST_NOT_OWNER);
  know();
  dict.flush_all();
  EXPECT_TRUE(again()) << "a flush must not prevent a later grant";
  EXPECT_EQ(dict.remaining("k", bound.lease), 0);
  EXPECT_TRUE(unlock_again());

  ASSERT_TRUE(again(0.001));
  sleep_ms(20);
  ASSERT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_OK);
  EXPECT_FALSE(unlock_again()) << "the lock has expired and was taken again";
  EXPECT_EQ(unlock(), HOLDFAST_NOT_OWNER);
}

TEST_IN_TIME(LockAgainTest, a_place_belongs_to_one_segment) {
  const std::string name = new_name();
  Dict first(name);
  Dict second(new_name());
  for (Dict* each : {&first, &second})
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(holdfast_lock_bind(each->handle, "k", 1, 0, 0, 0, &bound), HOLDFAST_OK);
      ASSERT_EQ(each->unlock("k", &bound.lease), HOLDFAST_OK);
    }
  EXPECT_EQ(holdfast_lock_again(first.handle, "k", 1, 0, 0, &bound), 0) << "the place is in the other dictionary";
  EXPECT_EQ(holdfast_lock_bind(first.handle, "k", 1, 0, 0, 0, &bound), HOLDFAST_OK);
  ASSERT_EQ(holdfast_remove(name.data(), name.size()), HOLDFAST_OK);
  EXPECT_EQ(holdfast_unlock_again(first.handle, "k", 1, &bound), 0) << "the dictionary was removed";
  Dict next(name);
  EXPECT_EQ(holdfast_lock_again(first.handle, "k", 1, 0, 0, &bound), 0) << "the place is in the removed dictionary";
  EXPECT_EQ(next.try_lock("k", 0, &other), HOLDFAST_OK);
}

TEST_IN_TIME(LockAgainTest, a_forked_child_releases_nothing_of_its_parent_and_takes_locks_as_itself) {
  take();
  in_process([&] {
    EXPECT_FALSE(unlock_again());
    EXPECT_EQ(unlock(), HOLDFAST_NOT_OWNER);
    EXPECT_FALSE(again());
  });
  const std::uint64_t owner = bound.lease.owner;
  ASSERT_TRUE(unlock_again());
  in_process([&] {
    EXPECT_FALSE(again()) << "the child has not entered the world";
    ASSERT_EQ(bind(), HOLDFAST_OK);
    EXPECT_NE(bound.lease.owner, owner);
    EXPECT_TRUE(unlock_again() && again());
  });
  EXPECT_FALSE(again()) << "only the mutex takes a lock from a dead process";
  EXPECT_EQ(bind(), HOLDFAST_OK);
}

// --- waits ---

TEST_IN_TIME(LockTest, a_waiter_that_gives_up_leaves_nothing_behind) {
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  const std::uint64_t before = dict.free_space();
  Waiting waiting[3];
  for (int round = 0; round < 5; ++round)
    for (Waiting& one : waiting) EXPECT_EQ(one.lock(dict, "k", 0.005, &other), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(waiting[0].once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_LT(dict.free_space(), before);
  EXPECT_EQ(waiting[0].once(dict, "k", &other), HOLDFAST_LOCKED) << "a second step must not queue again";
  EXPECT_EQ(waiting[0].leave(dict, "k"), HOLDFAST_OK);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(waiting[0].leave(dict, "k"), HOLDFAST_OK) << "leaving twice must not be an error";
}

TEST_IN_TIME(LockTest, deleting_a_lock_wakes_all_its_waiters) {
  Waiting waiting[3];
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  for (Waiting& one : waiting) ASSERT_EQ(one.once(dict, "k", &other), HOLDFAST_LOCKED);
  dict.remove("k");
  for (Waiting& one : waiting) EXPECT_TRUE(one.sleep(20));
}

TEST_IN_TIME(LockTest, a_release_reserves_the_lock_for_a_waiter_that_has_waited_long) {
  Waiting first;
  Waiting second;
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(first.once(dict, "k", &other), HOLDFAST_LOCKED);
  sleep_ms(2);
  ASSERT_EQ(second.once(dict, "k", &other), HOLDFAST_LOCKED);
  sleep_ms(10);
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_LOCKED) << "another request got the lock";
  EXPECT_EQ(second.once(dict, "k", &lease), HOLDFAST_LOCKED) << "a later waiter got the lock";
  EXPECT_EQ(first.once(dict, "k", &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.ttl("k"), 0) << "the lock must have the requested exptime, not the reservation's";
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(second.once(dict, "k", &other), HOLDFAST_OK);
  EXPECT_GT(other.sequence, lease.sequence);
}

TEST_IN_TIME(LockTest, a_reservation_that_nobody_claims_lapses) {
  Waiting first;
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(first.once(dict, "k", &other), HOLDFAST_LOCKED);
  sleep_ms(10);
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_TRUE(eventually([&] { return dict.try_lock("k", 0, &lease) == HOLDFAST_OK; }));
  EXPECT_EQ(first.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_EQ(first.leave(dict, "k"), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK) << "leaving the queue released another holder's lock";
}

TEST_IN_TIME(LockTest, woken_waiters_that_never_respond_do_not_block_the_next_waiter_of_their_parker) {
  const std::unique_ptr<holdfast_parker, CloseParker> parker(holdfast_parker_new());
  const Waiting reads_the_mail_of_earlier_tests;
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  std::vector<holdfast_wait> waits(3);
  std::vector<std::uint32_t> waiters;
  for (holdfast_wait& wait : waits) {
    wait.parker = parker.get();
    wait.waiter = holdfast_waiter_open(parker.get());
    waiters.push_back(wait.waiter);
    ASSERT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &wait, &other), HOLDFAST_LOCKED);
    sleep_ms(2);
  }
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  std::vector<std::uint32_t> woken;
  for (const double end = now() + 20; woken.size() < waits.size() && now() < end;) {
    std::uint32_t one = 0;
    if (holdfast_parker_sleep(parker.get(), end - now(), &one, 1) == 1) woken.push_back(one);
  }
  EXPECT_EQ(woken, waiters);
  EXPECT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waits[2], &lease), HOLDFAST_OK);
}

TEST_IN_TIME(LockTest, waiting_for_an_ordinary_value_polls_again_soon) {
  Waiting waiting;
  dict.set("k", "v");
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  EXPECT_LE(waiting.sleep_time(), 0.1);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
}

// --- several processes ---

TEST_IN_TIME(LockTest, a_killed_processs_lock_is_free_immediately) {
  Holder holder(dict);
  ASSERT_EQ(dict.get("k"), boolean(true));
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_LOCKED);
  ASSERT_EQ(holder.kill_and_wait(), 128 + SIGKILL);
  EXPECT_EQ(dict.get("k"), nothing());
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
}

TEST_IN_TIME(LockTest, a_waiter_that_immediately_finds_the_holder_dead_is_not_left_in_the_queue) {
  in_process([&] { EXPECT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_OK); });
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_OK);
  EXPECT_EQ(count_shard(dict.segment().shards()[0]).waiters, 0U);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), nothing()) << "the lock was reserved for a waiter that had left";
}

TEST_IN_TIME(LockTest, a_waiter_keeps_its_only_position_while_the_dictionary_cannot_be_changed) {
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  Inside stopped(dict);
  EXPECT_EQ(waiting.once(dict, "k", &other), HOLDFAST_TIMEOUT);
  EXPECT_GT(waiting.sleep_time(), 0);
  ASSERT_EQ(stopped.ask("leave"), "outside");
  EXPECT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_EQ(count_shard(dict.segment().shards()[0]).waiters, 1U);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
  EXPECT_EQ(count_shard(dict.segment().shards()[0]).waiters, 0U);
}

TEST_F(LockRaceTest, a_critical_section_under_the_lock_is_never_entered_twice) {
  constexpr int kEach = 2000;
  const auto work = [&](Channel&) {
    Waiting waiting;
    holdfast_lease mine{};
    for (int i = 0; i < kEach; ++i) {
      if (waiting.lock(dict, "k", 20, &mine) != HOLDFAST_OK) return 1;
      const double seen = dict.get("count").number;
      if (dict.set_number("count", seen + 1) != HOLDFAST_OK) return 2;
      if (dict.unlock("k", &mine) != HOLDFAST_OK) return 3;
    }
    return 0;
  };
  Child first(work);
  Child second(work);
  Child third(work);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(third.wait(), 0);
  EXPECT_EQ(dict.get("count"), number(3 * kEach));
  EXPECT_EQ(count_shard(dict.segment().shards()[0]).waiters, 0U);
}

TEST_IN_TIME(LockTest, a_forked_child_has_parkers_but_none_of_its_parents_waiters) {
  Waiting waiting;
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  in_process([&] {
    holdfast_lease mine{};
    EXPECT_EQ(waiting.once(dict, "k", &mine), HOLDFAST_INVALID);
    Waiting own;
    EXPECT_EQ(own.once(dict, "k", &mine), HOLDFAST_LOCKED);
    double sleep = 0;
    const std::uint32_t other_waiter = holdfast_waiter_open(waiting.parker());
    EXPECT_EQ(dict.wait_lock("k", 0, waiting.parker(), other_waiter, &mine, &sleep), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.remaining("k", lease), -1);
    EXPECT_EQ(own.leave(dict, "k"), HOLDFAST_OK);
  });
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_TRUE(waiting.sleep(20));
  EXPECT_EQ(waiting.once(dict, "k", &other), HOLDFAST_OK);
}

TEST_IN_TIME(LockTest, any_number_of_waiters_leaves_memory_for_others_and_all_are_served) {
  constexpr int kWaiters = 3000;
  Dict small(new_name(), {.size = 65536});
  const std::unique_ptr<holdfast_parker, CloseParker> parker(holdfast_parker_new());
  ASSERT_EQ(small.try_lock("k", 0, &lease), HOLDFAST_OK);
  std::vector<std::uint32_t> waiting;
  double shortest = 1;
  double longest = 0;
  for (int i = 0; i < kWaiters; ++i) {
    waiting.push_back(holdfast_waiter_open(parker.get()));
    double sleep = 0;
    ASSERT_EQ(small.wait_lock("k", 0, parker.get(), waiting.back(), &other, &sleep), HOLDFAST_LOCKED);
    if (sleep < 0.5) shortest = std::min(shortest, sleep);  // this waiter has no position in the queue
    longest = std::max(longest, sleep < 0.5 ? sleep : 0);
  }
  EXPECT_GT(longest, shortest) << "with more waiters that poll, each must sleep longer";
  EXPECT_EQ(small.set("another key", std::string(20'000, 'x')), HOLDFAST_OK);
  EXPECT_EQ(small.try_lock("another lock", 0, &other), HOLDFAST_OK);

  ASSERT_EQ(small.unlock("k", &lease), HOLDFAST_OK);
  int served = 0;
  // A further attempt stands for the events that wake a waiter: mail, or the end of its sleep.
  for (int round = 0; round < 10 && !waiting.empty(); ++round) {
    std::vector<std::uint32_t> left;
    for (const std::uint32_t waiter : waiting) {
      double sleep = 0;
      if (small.wait_lock("k", 0, parker.get(), waiter, &lease, &sleep) != HOLDFAST_OK) {
        left.push_back(waiter);
        continue;
      }
      ++served;
      ASSERT_EQ(small.unlock("k", &lease), HOLDFAST_OK);
    }
    waiting.swap(left);
  }
  EXPECT_EQ(served, kWaiters);
  EXPECT_EQ(count_shard(small.segment().shards()[0]).waiters, 0U);
}

}  // namespace
}  // namespace holdfast::test
