// Tests a reader that becomes the writer: when it gets the write lock, which other requests it keeps out while it
// waits, and what ends the wait.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dict/repair.h"
#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

class UpgradeTest : public PermitsTest {
 protected:
  bool is_writer(Upgrader& one) {
    holdfast_lease none{};
    return one.permits() == kAll && read(&none) == HOLDFAST_LOCKED && write(&none) == HOLDFAST_LOCKED;
  }
  bool is_reader(Upgrader& one) { return one.permits() == 1 && dict.remaining("key", one.lease) >= 0; }
};

/// Tests that do not depend on time.
class LongUpgradeTest : public UpgradeTest {};

TEST_IN_TIME(UpgradeTest, the_only_reader_becomes_the_writer_at_once_and_keeps_its_lease) {
  Upgrader reader(dict, 100);
  const std::uint64_t number = reader.lease.sequence;
  EXPECT_EQ(reader.try_upgrade(), HOLDFAST_OK);
  EXPECT_TRUE(is_writer(reader));
  EXPECT_EQ(reader.lease.sequence, number);
  EXPECT_GT(dict.remaining("key", reader.lease), 50);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK) << "an upgrade by the writer must succeed";
  EXPECT_EQ(dict.keep("key", reader.lease, 1), HOLDFAST_OK);
  EXPECT_TRUE(is_reader(reader));
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK);
  EXPECT_EQ(reader.unlock(), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 0);
}

TEST_IN_TIME(UpgradeTest, a_number_stays_larger_than_the_numbers_of_all_earlier_writers) {
  holdfast_lease writer{};
  ASSERT_EQ(write(&writer), HOLDFAST_OK);
  const std::uint64_t last = writer.sequence;
  ASSERT_EQ(dict.unlock("key", &writer), HOLDFAST_OK);
  Upgrader reader(dict);
  Upgrader later(dict);
  EXPECT_EQ(later.unlock(), HOLDFAST_OK);
  EXPECT_EQ(reader.try_upgrade(), HOLDFAST_OK);
  EXPECT_GT(reader.lease.sequence, last);
  EXPECT_EQ(reader.unlock(), HOLDFAST_OK);
  EXPECT_EQ(write(&writer), HOLDFAST_OK);
  EXPECT_GT(writer.sequence, last + 2);
}

TEST_IN_TIME(UpgradeTest, a_reader_beside_others_waits_until_it_is_the_only_reader_and_comes_before_writers) {
  Upgrader reader(dict);
  Upgrader others[2] = {Upgrader(dict), Upgrader(dict)};
  Writer writer(dict);
  ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.try_upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(others[0].lease), HOLDFAST_OK);
  EXPECT_FALSE(reader.is_woken());
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(others[1].lease), HOLDFAST_OK);
  EXPECT_TRUE(reader.is_woken());
  EXPECT_FALSE(writer.is_woken());
  EXPECT_EQ(writer.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK);
  EXPECT_TRUE(is_writer(reader));
  EXPECT_EQ(dict.waiters("key"), 1);
  EXPECT_EQ(post(reader.lease), HOLDFAST_OK);
  EXPECT_EQ(writer.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(UpgradeTest, no_reader_gets_in_while_a_reader_waits_to_become_the_writer) {
  Upgrader reader(dict);
  Upgrader other(dict);
  Writer writer(dict);
  ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
  Reader earlier(dict);
  ASSERT_EQ(earlier.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  holdfast_lease none{};
  EXPECT_EQ(read(&none), HOLDFAST_LOCKED);
  EXPECT_EQ(earlier.wait(), HOLDFAST_LOCKED);
  Reader later(dict);
  EXPECT_EQ(later.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(writer.leave(), HOLDFAST_OK);
  EXPECT_EQ(earlier.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(other.lease), HOLDFAST_OK);
  EXPECT_EQ(read(&none), HOLDFAST_LOCKED)
      << "the permits are free, but the first reader was woken to become the writer";
  EXPECT_EQ(earlier.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(later.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK);
  EXPECT_EQ(post(reader.lease), HOLDFAST_OK);
  EXPECT_EQ(earlier.wait(), HOLDFAST_OK);
  EXPECT_EQ(later.wait(), HOLDFAST_OK);
}

// A waiter that has lost its position queues again according to the time of its arrival.
TEST_IN_TIME(UpgradeTest, a_waiter_that_came_earlier_queues_again_behind_the_reader) {
  Upgrader reader(dict);
  Upgrader other(dict);
  Writer writer(dict);
  ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
  repair(shard());
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(writer.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.waiters("key"), 2);
  EXPECT_EQ(post(other.lease), HOLDFAST_OK);
  EXPECT_TRUE(reader.is_woken());
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK);
}

TEST_IN_TIME(UpgradeTest, the_second_of_two_readers_gets_deadlock_at_once_and_keeps_its_read_lock) {
  Upgrader first(dict);
  Upgrader second(dict);
  EXPECT_EQ(first.upgrade(), HOLDFAST_LOCKED);
  for (const bool waits : {false, true}) {
    EXPECT_EQ(waits ? second.upgrade() : second.try_upgrade(), HOLDFAST_DEADLOCK);
    EXPECT_STREQ(holdfast_error(),
                 "another reader of this key is waiting to become the writer; release this read lock");
  }
  EXPECT_EQ(holdfast_upgrade(dict.handle, "key", 3, 10, 0, &second.lease), HOLDFAST_DEADLOCK);
  EXPECT_TRUE(is_reader(second));
  EXPECT_EQ(dict.waiters("key"), 1);
  EXPECT_EQ(first.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(second.lease), HOLDFAST_OK);
  EXPECT_TRUE(first.is_woken());
  EXPECT_EQ(first.upgrade(), HOLDFAST_OK);
  EXPECT_TRUE(is_writer(first));
}

TEST_IN_TIME(UpgradeTest, an_abandoned_wait_leaves_the_read_lock_and_lets_others_continue) {
  Upgrader reader(dict, 100);
  Upgrader other(dict);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  Reader waiting(dict);
  EXPECT_EQ(waiting.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.leave(), HOLDFAST_OK);
  EXPECT_TRUE(is_reader(reader));
  EXPECT_TRUE(waiting.is_woken());
  EXPECT_EQ(waiting.wait(), HOLDFAST_OK);
  EXPECT_EQ(other.upgrade(), HOLDFAST_LOCKED) << "the other reader may now wait to become the writer";
  EXPECT_EQ(other.leave(), HOLDFAST_OK);
}

TEST_IN_TIME(UpgradeTest, a_woken_reader_that_does_not_respond_leaves_the_queue_after_a_while) {
  Upgrader reader(dict);
  Upgrader other(dict);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(other.lease), HOLDFAST_OK);
  holdfast_lease late{};
  EXPECT_EQ(read(&late), HOLDFAST_LOCKED);
  sleep_ms(60);
  EXPECT_EQ(read(&late), HOLDFAST_OK);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(late), HOLDFAST_OK);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK);
}

// --- lost leases, and leases of other kinds ---

TEST_IN_TIME(UpgradeTest, a_lost_lease_cannot_be_upgraded) {
  const auto end = [this](int how, Upgrader& reader) {
    if (how == 0) sleep_ms(70);
    if (how == 1) dict.remove("key");
    if (how == 2) dict.flush_all();
    if (how == 3) dict.set("key", "value");
    if (how == 4) reader.unlock();
  };
  for (const bool waits : {false, true}) {
    for (const int how : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(how);
      Upgrader reader(dict, how == 0 ? 0.05 : 0);
      holdfast_lease other{};
      ASSERT_EQ(read(&other), HOLDFAST_OK);
      if (waits) {
        EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
      }
      const holdfast_lease had = reader.lease;
      end(how, reader);
      EXPECT_EQ(dict.upgrade("key", had), HOLDFAST_NOT_OWNER);
      reader.lease = had;
      EXPECT_EQ(reader.upgrade(), HOLDFAST_NOT_OWNER);
      EXPECT_EQ(dict.queued("key"), 0U) << "the waiter is still in the queue";
      dict.remove("key");
    }
  }
  const holdfast_lease none{};
  EXPECT_EQ(dict.upgrade("key", none), HOLDFAST_NOT_OWNER);
}

TEST_IN_TIME(UpgradeTest, a_waiter_sleeps_no_longer_than_its_own_lease_lasts) {
  Upgrader reader(dict, 0.05);
  Upgrader other(dict);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_LE(reader.sleep_time(), 0.06);
  EXPECT_EQ(reader.wait_to_upgrade(), HOLDFAST_NOT_OWNER);
}

TEST_IN_TIME(UpgradeTest, a_lease_of_another_process_is_upgraded_only_on_its_behalf) {
  Upgrader reader(dict);
  const auto on_behalf = [&](holdfast_wait* wait) {
    return dict.upgrade("key", reader.lease, wait, HOLDFAST_HOW_ANY_OWNER);
  };
  in_process([&] { EXPECT_EQ(dict.upgrade("key", reader.lease), HOLDFAST_NOT_OWNER); });
  EXPECT_TRUE(is_reader(reader));
  in_process([&] { EXPECT_EQ(on_behalf(nullptr), HOLDFAST_OK); });
  EXPECT_TRUE(is_writer(reader));
  EXPECT_EQ(dict.keep("key", reader.lease, 1), HOLDFAST_OK);
  in_process([&] {
    Upgrader other(dict);
    const Parked waiting;
    holdfast_wait wait{};
    wait.parker = waiting.parker();
    wait.waiter = waiting.waiter();
    EXPECT_EQ(on_behalf(&wait), HOLDFAST_LOCKED);
    EXPECT_EQ(other.try_upgrade(), HOLDFAST_DEADLOCK);
    EXPECT_EQ(other.unlock(), HOLDFAST_OK);
    EXPECT_EQ(on_behalf(&wait), HOLDFAST_OK);
  });
  EXPECT_TRUE(is_writer(reader));
  holdfast_lease none{};
  EXPECT_EQ(dict.unlock("key", &reader.lease), HOLDFAST_OK);
  EXPECT_EQ(dict.upgrade("key", none, nullptr, HOLDFAST_HOW_ANY_OWNER), HOLDFAST_NOT_OWNER);
}

TEST_IN_TIME(UpgradeTest, a_lock_and_a_semaphore_have_no_readers) {
  holdfast_lease lock{};
  ASSERT_EQ(dict.try_lock("lock", 0, &lock), HOLDFAST_OK);
  EXPECT_EQ(dict.upgrade("lock", lock), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad lease: only a reader of an rwlock can become the writer");
  EXPECT_EQ(dict.unlock("lock", &lock), HOLDFAST_OK);
  holdfast_lease permit = acquired();
  EXPECT_EQ(dict.upgrade("key", permit), HOLDFAST_INVALID);
  EXPECT_EQ(holdfast_upgrade(dict.handle, "key", 3, 10, 0, &permit), HOLDFAST_INVALID);
  EXPECT_EQ(post(permit), HOLDFAST_OK);
  EXPECT_EQ(holdfast_upgrade(dict.handle, "key", 3, NAN, 0, &permit), HOLDFAST_INVALID);
  Upgrader reader(dict);
  holdfast_wait wait{};
  wait.parker = reader.parker();
  wait.waiter = 12345;
  EXPECT_EQ(dict.upgrade("key", reader.lease, &wait), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad waiter: expected a number from holdfast_waiter_open");
}

// The waiter for a semaphore wants as many permits as a reader that becomes the writer.
TEST_IN_TIME(UpgradeTest, a_waiter_of_a_semaphore_for_as_many_permits_keeps_its_position) {
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, kAll - 1, 0, &lease), HOLDFAST_OK);
  Parked few;
  Parked many;
  few.sleep(0);
  holdfast_lease got{};
  EXPECT_EQ(few.wait_for_permits(dict, "key", HOLDFAST_SEMAPHORE, kAll - 1, kAll - 1, &got), HOLDFAST_LOCKED);
  EXPECT_EQ(many.wait_for_permits(dict, "key", HOLDFAST_SEMAPHORE, kAll - 1, kAll - 1, &got), HOLDFAST_LOCKED);
  EXPECT_EQ(post(lease), HOLDFAST_OK);
  EXPECT_TRUE(few.sleep(0));
  EXPECT_EQ(few.wait_for_permits(dict, "key", HOLDFAST_SEMAPHORE, kAll - 1, kAll - 1, &got), HOLDFAST_OK);
  EXPECT_EQ(many.leave(dict, "key"), HOLDFAST_OK);
}

// --- other processes ---

TEST_IN_TIME(UpgradeTest, readers_that_die_or_expire_do_not_keep_a_reader_waiting) {
  Upgrader reader(dict);
  holdfast_lease expiring{};
  Resident one([&] {
    holdfast_lease lease{};
    EXPECT_EQ(read(&lease), HOLDFAST_OK);
  });
  EXPECT_EQ(read(&expiring, 0.05), HOLDFAST_OK);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  one.kill_and_wait();
  EXPECT_EQ(reader.wait_to_upgrade(), HOLDFAST_OK);
  EXPECT_TRUE(is_writer(reader));
}

TEST_IN_TIME(UpgradeTest, a_process_that_dies_while_it_waits_leaves_nothing) {
  Upgrader reader(dict);
  Resident dying([&] {
    Upgrader other(dict);
    EXPECT_EQ(other.upgrade(), HOLDFAST_LOCKED);
  });
  EXPECT_EQ(reader.upgrade(), HOLDFAST_DEADLOCK);
  dying.kill_and_wait();
  EXPECT_EQ(reader.wait_to_upgrade(), HOLDFAST_OK);
  EXPECT_EQ(reader.unlock(), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 0);
  holdfast_lease lease{};
  EXPECT_EQ(read(&lease), HOLDFAST_OK);
  EXPECT_EQ(dict.waiters("key"), 0);
}

TEST_IN_TIME(UpgradeTest, a_new_reader_gets_in_at_once_when_the_waiting_reader_is_dead) {
  Upgrader reader(dict);
  Resident dying([&] {
    Upgrader other(dict);
    EXPECT_EQ(other.upgrade(), HOLDFAST_LOCKED);
  });
  holdfast_lease lease{};
  EXPECT_EQ(read(&lease), HOLDFAST_LOCKED);
  dying.kill_and_wait();
  EXPECT_EQ(read(&lease), HOLDFAST_OK);
}

// The stopped process still has its read lock, so no writer is admitted.
TEST_F(LongUpgradeTest, a_stopped_process_that_waits_keeps_readers_out_only_for_a_while) {
  Started waiting("waits", [&](Channel& parent) {
    Upgrader other(dict);
    holdfast_lease lease{};
    if (read(&lease) != HOLDFAST_OK || other.upgrade() != HOLDFAST_LOCKED) return 1;
    parent.say("waits");
    parent.hear();
    dict.unlock("key", &lease);
    parent.say(holdfast_code_text(other.wait_to_upgrade()));
    parent.hear();
    return 0;
  });
  waiting.stop();
  holdfast_lease lease{};
  EXPECT_EQ(read(&lease), HOLDFAST_LOCKED);
  Reader reader(dict);
  EXPECT_TRUE(reader.get());
  EXPECT_EQ(write(&lease), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.unlock("key", &reader.lease), HOLDFAST_OK);
  waiting.signal(SIGCONT);
  EXPECT_EQ(waiting.ask("go on"), "ok");
}

TEST_F(LongUpgradeTest, permits_of_many_dead_readers_and_of_many_expired_readers_are_freed) {
  Upgrader reader(dict);
  Resident dying([&] {
    holdfast_lease lease{};
    for (int i = 0; i < 100; ++i) EXPECT_EQ(read(&lease), HOLDFAST_OK);
  });
  holdfast_lease lease{};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(read(&lease, 0.2), HOLDFAST_OK);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  dying.kill_and_wait();
  EXPECT_EQ(reader.wait_to_upgrade(), HOLDFAST_OK);
  EXPECT_TRUE(is_writer(reader));
  EXPECT_EQ(count_shard(shard()).holders, 1U);
}

// --- memory, damage ---

TEST_F(LongUpgradeTest, without_room_in_the_queue_it_reports_no_memory_and_keeps_the_read_lock) {
  Upgrader reader(dict);
  Upgrader other(dict);
  std::vector<std::unique_ptr<Parked>> crowd;
  holdfast_lease none{};
  for (;;) {
    crowd.push_back(std::make_unique<Parked>());
    EXPECT_EQ(crowd.back()->wait_for_permits(dict, "key", HOLDFAST_RWLOCK, kAll, 0, &none), HOLDFAST_LOCKED);
    if (dict.waiters("key") < static_cast<int>(crowd.size())) break;
  }
  EXPECT_EQ(reader.upgrade(), HOLDFAST_NO_MEMORY);
  EXPECT_TRUE(is_reader(reader));
  EXPECT_EQ(other.unlock(), HOLDFAST_OK);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_OK) << "the upgrade of the only reader must need no memory";
  for (const auto& one : crowd) one->leave(dict, "key");
}

TEST_IN_TIME(UpgradeTest, overwritten_words_let_no_second_writer_in) {
  Upgrader reader(dict);
  Upgrader other(dict);
  for (const std::uint32_t used : {0U, 1U, kAll}) {
    fields().used.store(used);
    fields().number.store(used);
    EXPECT_EQ(reader.try_upgrade(), HOLDFAST_LOCKED) << used;
    EXPECT_TRUE(is_reader(reader));
  }
  EXPECT_EQ(other.unlock(), HOLDFAST_OK);
  fields().used.store(kAll);
  EXPECT_EQ(reader.try_upgrade(), HOLDFAST_OK);
  EXPECT_EQ(reader.unlock(), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 0);
}

TEST_IN_TIME(UpgradeTest, a_reader_waits_again_after_a_repair_has_dropped_the_queue) {
  Upgrader reader(dict);
  Upgrader other(dict);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  repair(shard());
  EXPECT_EQ(dict.waiters("key"), 0);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.waiters("key"), 1);
  EXPECT_EQ(other.upgrade(), HOLDFAST_DEADLOCK);
  repair(shard());
  EXPECT_EQ(other.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_DEADLOCK) << "only one of the two readers may wait";
}

// --- in a thread ---

TEST_F(LongUpgradeTest, a_thread_waits_in_one_call_and_a_timeout_leaves_the_read_lock) {
  Upgrader reader(dict);
  Upgrader other(dict);
  const auto upgrade = [&](double timeout) {
    return holdfast_upgrade(dict.handle, "key", 3, timeout, 0, &reader.lease);
  };
  EXPECT_EQ(upgrade(0), HOLDFAST_LOCKED);
  EXPECT_EQ(upgrade(0.05), HOLDFAST_LOCKED);
  EXPECT_TRUE(is_reader(reader));
  EXPECT_EQ(dict.waiters("key"), 0);
  std::atomic<int> code{-1};
  std::thread thread([&] { code = upgrade(INFINITY); });
  EXPECT_TRUE(eventually([&] { return dict.waiters("key") == 1; }));
  holdfast_waiter waiter{};
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;
  EXPECT_EQ(holdfast_look(dict.handle, "key", 3, nullptr, 0, &holders, &waiter, sizeof waiter, 1, &waiters),
            HOLDFAST_OK);
  EXPECT_EQ(waiter.want, kAll);
  EXPECT_EQ(post(other.lease), HOLDFAST_OK);
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_TRUE(is_writer(reader));
}

TEST_F(LongUpgradeTest, a_cycle_with_another_lock_is_a_deadlock) {
  Upgrader mine(dict);
  Upgrader others(dict);
  const std::uint32_t task = holdfast_task_ids() + 1;
  ASSERT_EQ(holdfast_lock_adopt(dict.handle, "key", 3, &mine.lease, task), HOLDFAST_OK);
  ASSERT_EQ(holdfast_lock_adopt(dict.handle, "key", 3, &others.lease, task + 1), HOLDFAST_OK);
  holdfast_lease lock{};
  ASSERT_EQ(holdfast_lock_try(dict.handle, "lock", 4, 0, task, 0, &lock), HOLDFAST_OK);
  std::atomic<int> code{-1};
  std::string sentence;
  std::thread thread([&] {
    const holdfast_request request =
        HOLDFAST_REQUEST(.timeout = 60, .holds = HOLDFAST_HOLDS_SOMETHING, .task = task + 1, .holder_task = task + 1);
    holdfast_lease got{};
    code = holdfast_acquire(dict.handle, "lock", 4, &request, &got);
    if (code == HOLDFAST_OK) dict.unlock("lock", &got);
    EXPECT_EQ(others.unlock(), HOLDFAST_OK);
  });
  EXPECT_TRUE(eventually([&] { return dict.queued("lock") == 1; }));
  EXPECT_EQ(holdfast_upgrade(dict.handle, "key", 3, 60, task, &mine.lease), HOLDFAST_DEADLOCK);
  EXPECT_STREQ(holdfast_error(),
               "the wait would never end: the holder of \"key\" waits for \"lock\", and the caller holds \"lock\"");
  EXPECT_TRUE(is_reader(mine));
  EXPECT_EQ(dict.unlock("lock", &lock), HOLDFAST_OK);
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_EQ(holdfast_upgrade(dict.handle, "key", 3, 60, task, &mine.lease), HOLDFAST_OK);
}

// Several threads repeatedly read a value. Each then either becomes the writer and increments the value, or releases
// its read lock.
TEST_F(LongUpgradeTest, nothing_changes_between_the_read_and_the_write) {
  constexpr int kThreads = 4;
  constexpr int kCounts = 200;
  std::uint64_t value = 0;  // guarded by the rwlock
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const holdfast_request request = HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .timeout = 60, .want = 1);
      for (int counted = 0; counted < kCounts;) {
        holdfast_lease lease{};
        ASSERT_EQ(holdfast_acquire(dict.handle, "key", 3, &request, &lease), HOLDFAST_OK);
        const std::uint64_t seen = value;
        const int code = holdfast_upgrade(dict.handle, "key", 3, 60, 0, &lease);
        if (code == HOLDFAST_OK) {
          EXPECT_EQ(value, seen);
          value = seen + 1;
          ++counted;
        } else {
          ASSERT_EQ(code, HOLDFAST_DEADLOCK);
        }
        ASSERT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, std::uint64_t{kThreads} * kCounts);
}

/// Runs with each kind of mutex.
class UpgradeMutexTest : public ::testing::TestWithParam<int> {};

TEST_P(UpgradeMutexTest, works) {
  const std::string name = new_name();
  Dict dict(name, {.size = 32768, .mutex = GetParam()});
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  Upgrader reader(dict);
  Upgrader other(dict);
  EXPECT_EQ(reader.upgrade(), HOLDFAST_LOCKED);
  EXPECT_EQ(other.upgrade(), HOLDFAST_DEADLOCK);
  EXPECT_EQ(other.unlock(), HOLDFAST_OK);
  EXPECT_EQ(reader.wait_to_upgrade(), HOLDFAST_OK);
  EXPECT_EQ(reader.permits(), kAll);
  EXPECT_EQ(reader.unlock(), HOLDFAST_OK);
  holdfast_remove(name.data(), name.size());
}

INSTANTIATE_TEST_SUITE_P(Mutexes, UpgradeMutexTest,
                         ::testing::Values(HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE));

}  // namespace
}  // namespace holdfast::test
