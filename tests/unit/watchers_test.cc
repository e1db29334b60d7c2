// Tests watchers, which wait for the end of a grant without requesting the lock.
#include "lock/watchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/dict_test.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 30;
const std::string kKey = "key";

/// A parker with any number of watchers.
class Watchers {
 public:
  explicit Watchers(std::size_t count) : waiters_(count), grants_(count), sleep_times_(count) {
    for (std::uint32_t& waiter : waiters_) waiter = holdfast_waiter_open(parker_.get());
    while (woken() != 0) {  // clears wake-ups that an earlier test has left
    }
  }

  int once(Dict& dict, std::size_t index = 0) {
    holdfast_wait wait{};
    wait.parker = parker_.get();
    wait.waiter = waiters_[index];
    const int code = holdfast_lock_watch(dict.handle, kKey.data(), kKey.size(), &wait, &grants_[index]);
    sleep_times_[index] = wait.sleep;
    return code;
  }
  /// Queues the watchers. Returns how many of them get LOCKED.
  std::size_t queue(Dict& dict) {
    std::size_t locked = 0;
    for (std::size_t i = 0; i < waiters_.size(); ++i) locked += once(dict, i) == HOLDFAST_LOCKED ? 1 : 0;
    return locked;
  }
  int leave(Dict& dict, std::size_t index = 0) { return dict.leave(kKey, parker_.get(), waiters_[index]); }
  /// Returns how many watchers have been woken.
  std::size_t woken() {
    std::vector<std::uint32_t> numbers(waiters_.size() + 1);
    const int count = holdfast_parker_sleep(parker_.get(), 0, numbers.data(), static_cast<int>(numbers.size()));
    return static_cast<std::size_t>(std::max(count, 0));
  }
  /// Runs the watchers as a host does, until all of their waits have ended or the time is over. Returns the number of
  /// ended waits, including the `over` waits that had already ended.
  std::size_t run(Dict& dict, double timeout, std::size_t over = 0) {
    const double end = now() + timeout;
    std::vector<std::uint32_t> numbers(waiters_.size());
    while (over < waiters_.size() && now() < end) {
      const int count =
          holdfast_parker_sleep(parker_.get(), end - now(), numbers.data(), static_cast<int>(numbers.size()));
      for (int i = 0; i < count; ++i) {
        const auto at = std::find(waiters_.begin(), waiters_.end(), numbers[static_cast<std::size_t>(i)]);
        if (once(dict, static_cast<std::size_t>(at - waiters_.begin())) == HOLDFAST_OK) ++over;
      }
    }
    return over;
  }

  std::uint64_t grant(std::size_t index = 0) const { return grants_[index]; }
  double sleep_time(std::size_t index = 0) const { return sleep_times_[index]; }

 private:
  std::unique_ptr<holdfast_parker, CloseParker> parker_{holdfast_parker_new()};
  std::vector<std::uint32_t> waiters_;
  std::vector<std::uint64_t> grants_;
  std::vector<double> sleep_times_;
};

/// A process that has this many watchers in the queue until it ends.
class WatchingProcess : public Started {
 public:
  WatchingProcess(Dict& dict, std::size_t count)
      : Started(std::to_string(count), [&dict, count](Channel& parent) {
          Watchers watchers(count);
          parent.say(std::to_string(watchers.queue(dict)));
          parent.hear();
          return 0;
        }) {}
};

class WatchersTest : public DictTest {
 protected:
  WatchersTest() : DictTest({.size = 1 << 20}) {}

  void TearDown() override {
    EXPECT_EQ(dict.stats().repairs, 0U);
    DictTest::TearDown();
  }

  void lock(double exptime = 0) { ASSERT_EQ(dict.try_lock(kKey, exptime, &lease), HOLDFAST_OK); }
  int unlock() { return dict.unlock(kKey, &lease); }
  int look(std::uint64_t* grant) { return holdfast_lock_watch(dict.handle, kKey.data(), kKey.size(), nullptr, grant); }
  std::uint32_t waiters() { return dict.queued(kKey); }
  std::uint32_t blocks() { return dict.segment().shards()[0].header().waiters.load(kRelaxed); }

  holdfast_lease lease{};
};

TEST_F(WatchersTest, a_watcher_does_not_wait_for_a_free_lock) {
  Watchers one(1);
  EXPECT_EQ(one.once(dict), HOLDFAST_OK) << "the key does not exist";
  lock();
  unlock();
  EXPECT_EQ(one.once(dict), HOLDFAST_OK) << "free";
  EXPECT_EQ(one.grant(), 0U);
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(WatchersTest, a_check_names_the_grant_and_queues_nobody) {
  std::uint64_t grant = 0;
  lock();
  EXPECT_EQ(look(&grant), HOLDFAST_LOCKED);
  EXPECT_EQ(grant, lease.sequence);
  EXPECT_EQ(look(&grant), HOLDFAST_LOCKED);
  EXPECT_EQ(waiters(), 0U);
  unlock();
  lock();
  EXPECT_EQ(look(&grant), HOLDFAST_OK) << "the grant that was named has ended";
  grant = 0;
  EXPECT_EQ(look(&grant), HOLDFAST_LOCKED);
  unlock();
}

TEST_F(WatchersTest, a_release_wakes_watchers_and_removes_them_from_the_queue) {
  Watchers some(5);
  lock();
  EXPECT_EQ(some.queue(dict), 5U);
  EXPECT_EQ(some.queue(dict), 5U) << "each watcher must queue only once";
  EXPECT_EQ(waiters(), 5U);
  EXPECT_EQ(some.woken(), 0U);
  unlock();
  EXPECT_EQ(waiters(), 0U);
  EXPECT_EQ(some.woken(), 5U);
  lock();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(some.once(dict, i), HOLDFAST_OK) << "the watched grant has ended";
  EXPECT_EQ(blocks(), 0U);
  unlock();
}

TEST_F(WatchersTest, a_release_wakes_some_watchers_and_these_wake_the_rest) {
  constexpr std::size_t kMany = 4 * kWokenAtOnce + 3;
  Watchers many(kMany);
  lock();
  ASSERT_EQ(many.queue(dict), kMany);
  unlock();
  EXPECT_EQ(waiters(), kMany - kWokenAtOnce) << "too many watchers were woken under the mutex at once";
  EXPECT_EQ(many.once(dict), HOLDFAST_OK);
  EXPECT_EQ(waiters(), kMany - 2 * kWokenAtOnce);
  EXPECT_EQ(many.leave(dict, 1), HOLDFAST_OK) << "this watcher was woken but does not continue";
  EXPECT_EQ(waiters(), kMany - 3 * kWokenAtOnce);
  lock();
  EXPECT_EQ(many.once(dict, 2), HOLDFAST_OK);
  EXPECT_EQ(many.once(dict, 3), HOLDFAST_OK);
  EXPECT_EQ(waiters(), 0U);
  unlock();
}

TEST_F(WatchersTest, watchers_of_a_new_grant_stay_when_the_old_ones_are_woken) {
  Watchers old(kWokenAtOnce + 1);
  Watchers fresh(2);
  lock();
  ASSERT_EQ(old.queue(dict), kWokenAtOnce + 1);
  unlock();
  lock();
  ASSERT_EQ(fresh.queue(dict), 2U);
  EXPECT_EQ(waiters(), 3U);
  EXPECT_EQ(old.once(dict), HOLDFAST_OK);
  EXPECT_EQ(waiters(), 2U) << "the last old watcher must be woken, but no new watcher";
  EXPECT_EQ(fresh.woken(), 0U);
  unlock();
  EXPECT_EQ(fresh.woken(), 2U);
}

TEST_F(WatchersTest, one_release_resumes_hundreds_of_watchers_in_one_process) {
  constexpr std::size_t kMany = 700;
  Watchers many(kMany);
  lock();
  ASSERT_EQ(many.queue(dict), kMany);
  unlock();
  EXPECT_EQ(many.run(dict, kLong), kMany);
}

TEST_F(WatchersTest, a_request_for_the_lock_gets_it_as_if_there_were_no_watchers) {
  Watchers some(3);
  Waiting waiter(true);
  holdfast_lease other{};
  lock();
  ASSERT_EQ(some.queue(dict), 3U);
  ASSERT_EQ(waiter.once(dict, kKey, &other), HOLDFAST_LOCKED);
  ASSERT_EQ(some.queue(dict), 3U);
  unlock();
  EXPECT_EQ(dict.try_lock(kKey, 0, &lease), HOLDFAST_LOCKED) << "the lock must be reserved for the fair request";
  EXPECT_EQ(waiter.once(dict, kKey, &other), HOLDFAST_OK);
  EXPECT_EQ(some.once(dict), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock(kKey, &other), HOLDFAST_OK);
  EXPECT_EQ(holdfast_lock_try(dict.handle, kKey.data(), kKey.size(), 0, 0, 1, &lease), HOLDFAST_OK)
      << "the lock is not reserved";
  unlock();
}

TEST_F(WatchersTest, the_end_of_a_lease_ends_the_wait) {
  Watchers one(1);
  lock(0.05);
  ASSERT_EQ(one.once(dict), HOLDFAST_LOCKED);
  EXPECT_LE(one.sleep_time(), 0.06);
  EXPECT_EQ(one.run(dict, 0.02), 0U);
  sleep_ms(60);
  EXPECT_EQ(one.once(dict), HOLDFAST_OK);
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(WatchersTest, a_waiter_that_finds_the_lease_expired_wakes_the_watchers) {
  Watchers some(3);
  lock(0.02);
  ASSERT_EQ(some.queue(dict), 3U);
  sleep_ms(30);
  EXPECT_EQ(dict.try_lock(kKey, 0, &lease), HOLDFAST_OK);
  EXPECT_EQ(blocks(), 0U);
  EXPECT_EQ(some.run(dict, kLong), 3U);
  unlock();
}

TEST_F(WatchersTest, deleting_or_overwriting_a_lock_wakes_all_watchers) {
  for (const bool overwritten : {false, true}) {
    Watchers many(3 * kWokenAtOnce);
    lock();
    ASSERT_EQ(many.queue(dict), 3 * kWokenAtOnce);
    EXPECT_EQ(overwritten ? dict.set(kKey, "value") : dict.remove(kKey), HOLDFAST_OK);
    EXPECT_EQ(blocks(), 0U);
    if (overwritten) {
      EXPECT_EQ(many.once(dict), HOLDFAST_LOCKED)
          << "a value occupies the key, so the watcher must wait, like a caller of lock()";
      EXPECT_LE(many.sleep_time(), 0.1) << "nobody wakes this watcher, so it must poll";
      EXPECT_EQ(dict.remove(kKey), HOLDFAST_OK);
      EXPECT_EQ(many.once(dict), HOLDFAST_OK);
    }
    EXPECT_EQ(many.run(dict, kLong, overwritten ? 1 : 0), 3 * kWokenAtOnce);
  }
}

TEST_F(WatchersTest, a_flush_ends_the_wait) {
  Watchers some(3);
  lock();
  ASSERT_EQ(some.queue(dict), 3U);
  ASSERT_EQ(holdfast_flush_all(dict.handle), HOLDFAST_OK);
  EXPECT_EQ(some.run(dict, kLong), 3U);
}

TEST_F(WatchersTest, a_watched_lock_is_not_moved_and_a_watcher_can_leave) {
  Watchers some(2);
  lock();
  ASSERT_EQ(some.queue(dict), 2U);
  EXPECT_EQ(some.leave(dict, 0), HOLDFAST_OK);
  EXPECT_EQ(waiters(), 1U);
  EXPECT_EQ(some.leave(dict, 0), HOLDFAST_OK) << "leaving twice must not be an error";
  EXPECT_EQ(waiters(), 1U);
  unlock();
  EXPECT_EQ(some.woken(), 1U);
}

TEST_F(WatchersTest, a_watcher_of_permits_waits_for_the_current_holders) {
  holdfast_lease early{};
  holdfast_lease late{};
  Watchers one(1);
  ASSERT_EQ(dict.try_permits(kKey, HOLDFAST_SEMAPHORE, 1, 3, 0, &early), HOLDFAST_OK);
  ASSERT_EQ(one.once(dict), HOLDFAST_LOCKED);
  EXPECT_LE(one.sleep_time(), 0.02) << "nobody wakes this watcher, so it must poll";
  ASSERT_EQ(dict.try_permits(kKey, HOLDFAST_SEMAPHORE, 1, 3, 0, &late), HOLDFAST_OK);
  EXPECT_EQ(one.once(dict), HOLDFAST_LOCKED);
  ASSERT_EQ(dict.unlock(kKey, &early), HOLDFAST_OK);
  EXPECT_EQ(one.once(dict), HOLDFAST_OK);
  ASSERT_EQ(dict.unlock(kKey, &late), HOLDFAST_OK);
}

TEST_F(WatchersTest, watchers_poll_if_there_is_no_room_in_the_queue) {
  Dict small("watched-small", {.size = 12288});
  ASSERT_EQ(small.try_lock(kKey, 0, &lease), HOLDFAST_OK);
  Watchers many(400);
  ASSERT_EQ(many.queue(small), 400U);
  EXPECT_LE(many.sleep_time(399), 0.1) << "the watcher has no position in the queue";
  EXPECT_EQ(small.unlock(kKey, &lease), HOLDFAST_OK);
  for (std::size_t i = 0; i < 400; ++i) EXPECT_EQ(many.once(small, i), HOLDFAST_OK);
  EXPECT_EQ(check_segment(small.segment()), "");
  holdfast_remove("watched-small", 13);
}

TEST_F(WatchersTest, a_holders_death_is_detected_and_all_watchers_continue) {
  Resident holder([this] { lock(); });
  Watchers many(2 * kWokenAtOnce);
  ASSERT_EQ(many.queue(dict), 2 * kWokenAtOnce);
  holder.kill_and_wait();
  EXPECT_EQ(many.run(dict, kLong), 2 * kWokenAtOnce);
}

TEST_F(WatchersTest, dead_watchers_delay_nobody_and_their_memory_is_freed) {
  lock();
  {
    WatchingProcess dying(dict, 2 * kWokenAtOnce);
    Watchers living(10);
    ASSERT_EQ(living.queue(dict), 10U);
    dying.kill_and_wait();
    unlock();
    EXPECT_EQ(living.run(dict, kLong), 10U);
    EXPECT_EQ(blocks(), 0U);
    lock();
  }
  WatchingProcess(dict, 3).kill_and_wait();
  std::uint32_t count = 0;
  EXPECT_EQ(holdfast_flush_expired(dict.handle, 0, &count), HOLDFAST_OK);
  EXPECT_EQ(blocks(), 0U);
  unlock();
}

TEST_F(WatchersTest, a_child_does_not_take_part_in_its_parents_wait) {
  Watchers one(1);
  lock();
  ASSERT_EQ(one.once(dict), HOLDFAST_LOCKED);
  in_process([&] { EXPECT_EQ(one.once(dict), HOLDFAST_INVALID); });
  EXPECT_EQ(waiters(), 1U);
  unlock();
  EXPECT_EQ(one.run(dict, kLong), 1U);
}

}  // namespace
}  // namespace holdfast::test
