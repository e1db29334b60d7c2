// Tests a key for which locks, rwlocks and semaphores are requested at the same time. All requests wait in one queue.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

enum class What { lock, reader, writer, permit };
constexpr std::array kEverything{What::lock, What::reader, What::writer, What::permit};

std::string name_of(What what) {
  constexpr std::array kNames{"lock", "reader", "writer", "permit"};
  return kNames[static_cast<std::size_t>(what)];
}

constexpr bool are_of_one_kind(What one, What other) {
  const auto is_rwlock = [](What what) { return what == What::reader || what == What::writer; };
  return one == other || (is_rwlock(one) && is_rwlock(other));
}

/// A waiter for a lock or for permits. Its destructor leaves the queue.
class AnyWaiter : public Parked {
 public:
  AnyWaiter(Dict& dict, What what) : dict_(dict), what_(what) { is_woken(); }
  ~AnyWaiter() { leave(); }
  AnyWaiter(const AnyWaiter&) = delete;
  AnyWaiter& operator=(const AnyWaiter&) = delete;

  int wait() {
    if (what_ == What::lock) return wait_for_lock(dict_, "key", &lease, 0);
    if (what_ == What::permit) return wait_for_permits(dict_, "key", HOLDFAST_SEMAPHORE, 2, 3, &lease);
    return wait_for_permits(dict_, "key", HOLDFAST_RWLOCK, what_ == What::writer ? kAll : 1, 0, &lease);
  }
  int leave() { return Parked::leave(dict_, "key"); }
  int unlock() { return dict_.unlock("key", &lease); }
  /// Returns whether the waiter was woken within this time.
  bool is_woken(double seconds = 0) { return sleep(seconds); }
  /// Waits until it gets the lock or the permits. Returns false after ten seconds.
  bool get() {
    for (const double end = now() + 10; now() < end;) {
      if (wait() == HOLDFAST_OK) return true;
      is_woken(std::min(sleep_time(), 0.5));
    }
    return false;
  }

  holdfast_lease lease{};

 private:
  Dict& dict_;
  const What what_;
};

class KindsTest : public PermitsTest {
 protected:
  int try_for(What what, holdfast_lease* lease, double exptime = 0) {
    if (what == What::lock) return dict.try_lock("key", exptime, lease);
    if (what == What::permit) return dict.try_permits("key", HOLDFAST_SEMAPHORE, 2, 3, exptime, lease);
    return what == What::writer ? write(lease, exptime) : read(lease, exptime);
  }
  /// Runs a test for each pair of different kinds.
  template <class Test>
  void for_each_pair(Test&& test) {
    for (const What held : kEverything) {
      for (const What wanted : kEverything) {
        if (are_of_one_kind(held, wanted)) continue;
        SCOPED_TRACE("held: " + name_of(held) + ", wanted: " + name_of(wanted));
        test(held, wanted);
        dict.remove("key");
      }
    }
  }
};

TEST_IN_TIME(KindsTest, a_request_of_another_kind_queues_and_the_release_wakes_it) {
  for_each_pair([&](What held, What wanted) {
    for (const bool waits_long : {false, true}) {
      SCOPED_TRACE(waits_long);
      holdfast_lease lease{};
      holdfast_lease none{};
      ASSERT_EQ(try_for(held, &lease), HOLDFAST_OK);
      EXPECT_EQ(try_for(wanted, &none), HOLDFAST_LOCKED);
      AnyWaiter waiter(dict, wanted);
      ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED);
      EXPECT_EQ(dict.queued("key"), 1U);
      EXPECT_GT(waiter.sleep_time(), 0.9) << "the waiter polls instead of being woken";
      EXPECT_FALSE(waiter.is_woken());
      if (waits_long) sleep_ms(1);  // so that the lock is granted to the waiter
      EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
      EXPECT_TRUE(waiter.is_woken());
      EXPECT_EQ(waiter.wait(), HOLDFAST_OK);
      EXPECT_GT(waiter.lease.sequence, lease.sequence);
      EXPECT_EQ(try_for(held, &none), HOLDFAST_LOCKED);
      EXPECT_EQ(dict.queued("key"), 0U);
      EXPECT_EQ(waiter.unlock(), HOLDFAST_OK);
      EXPECT_EQ(try_for(held, &lease), HOLDFAST_OK);
      EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
    }
  });
}

TEST_IN_TIME(KindsTest, dead_processes_hold_no_key_of_any_kind) {
  for_each_pair([&](What held, What wanted) {
    for (const bool waits : {false, true}) {
      SCOPED_TRACE(waits);
      holdfast_lease lease{};
      Resident child([&] { EXPECT_EQ(try_for(held, &lease), HOLDFAST_OK); });
      AnyWaiter waiter(dict, wanted);
      EXPECT_EQ(waits ? waiter.wait() : HOLDFAST_LOCKED, HOLDFAST_LOCKED);
      child.kill_and_wait();
      EXPECT_TRUE(waits ? waiter.get() : try_for(wanted, &waiter.lease) == HOLDFAST_OK);
      EXPECT_EQ(waiter.unlock(), HOLDFAST_OK);
    }
  });
}

TEST_IN_TIME(KindsTest, a_wait_ends_with_the_exptime_of_the_holder) {
  for_each_pair([&](What held, What wanted) {
    holdfast_lease lease{};
    ASSERT_EQ(try_for(held, &lease, 0.02), HOLDFAST_OK);
    AnyWaiter waiter(dict, wanted);
    ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED);
    EXPECT_LE(waiter.sleep_time(), 0.03);
    EXPECT_TRUE(waiter.get());
    EXPECT_EQ(waiter.unlock(), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_NOT_OWNER);
  });
}

TEST_IN_TIME(KindsTest, waiters_get_the_key_in_order_of_arrival_whatever_they_want) {
  for_each_pair([&](What held, What wanted) {
    holdfast_lease lease{};
    ASSERT_EQ(try_for(held, &lease), HOLDFAST_OK);
    AnyWaiter first(dict, wanted);
    AnyWaiter second(dict, held);
    AnyWaiter third(dict, wanted);
    ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
    ASSERT_EQ(second.wait(), HOLDFAST_LOCKED) << "even a reader waits behind other waiters";
    ASSERT_EQ(third.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.queued("key"), 3U);
    EXPECT_EQ(post(lease), HOLDFAST_OK);
    EXPECT_EQ(third.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(second.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(first.wait(), HOLDFAST_OK);
    EXPECT_EQ(dict.queued("key"), 2U) << "both waiters keep their positions";
    EXPECT_FALSE(second.is_woken());
    EXPECT_EQ(second.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(third.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(post(first.lease), HOLDFAST_OK);
    EXPECT_EQ(third.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(second.wait(), HOLDFAST_OK);
    EXPECT_EQ(post(second.lease), HOLDFAST_OK);
    EXPECT_EQ(third.wait(), HOLDFAST_OK);
  });
}

TEST_IN_TIME(KindsTest, a_waiter_that_leaves_lets_the_next_ones_in) {
  holdfast_lease readers[2]{};
  ASSERT_EQ(read(&readers[0]), HOLDFAST_OK);
  AnyWaiter alone(dict, What::lock);
  AnyWaiter reader(dict, What::reader);
  ASSERT_EQ(alone.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(reader.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(read(&readers[1]), HOLDFAST_LOCKED) << "the new reader is queued after the waiter for the lock";
  EXPECT_EQ(alone.leave(), HOLDFAST_OK);
  EXPECT_TRUE(reader.is_woken());
  EXPECT_EQ(reader.wait(), HOLDFAST_OK);
  EXPECT_EQ(dict.queued("key"), 0U);
}

TEST_IN_TIME(KindsTest, a_lock_waits_for_the_last_permit_even_if_the_total_grows) {
  holdfast_lease permits[2]{};
  ASSERT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 1, 0, &permits[0]), HOLDFAST_OK);
  AnyWaiter alone(dict, What::lock);
  ASSERT_EQ(alone.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 100, 0, &permits[1]), HOLDFAST_LOCKED);
  EXPECT_EQ(alone.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(permits[0]), HOLDFAST_OK);
  EXPECT_TRUE(alone.is_woken());
  EXPECT_EQ(alone.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(KindsTest, a_lock_is_free_when_the_last_of_many_permits_has_expired) {
  constexpr double kEnd = 0.02;
  std::vector<holdfast_lease> readers(200);
  for (holdfast_lease& reader : readers) ASSERT_EQ(read(&reader, kEnd), HOLDFAST_OK);
  holdfast_lease lease{};
  EXPECT_EQ(dict.try_lock("key", 0, &lease), HOLDFAST_LOCKED);
  AnyWaiter waiter(dict, What::lock);
  EXPECT_TRUE(waiter.get());
  EXPECT_EQ(count_shard(shard()).holders, 0U);
}

TEST_IN_TIME(KindsTest, watchers_of_a_lock_are_woken_when_permits_replace_it) {
  holdfast_lease lease{};
  Resident child([&] { EXPECT_EQ(dict.try_lock("key", 0, &lease), HOLDFAST_OK); });
  Waiting watcher;
  std::uint64_t grant = 0;
  ASSERT_EQ(watcher.watch(dict, "key", &grant), HOLDFAST_LOCKED);
  child.kill_and_wait();
  ASSERT_EQ(read(&lease), HOLDFAST_OK);
  EXPECT_TRUE(watcher.sleep(0));
  EXPECT_EQ(watcher.watch(dict, "key", &grant), HOLDFAST_OK);
}

TEST_IN_TIME(KindsTest, without_memory_a_request_of_another_kind_changes_nothing) {
  holdfast_lease lease{};
  ASSERT_EQ(read(&lease), HOLDFAST_OK);
  std::vector<holdfast_lease> others;
  int code = HOLDFAST_OK;
  for (int i = 0; code == HOLDFAST_OK; ++i)
    code = dict.try_lock("other " + std::to_string(i), 0, &others.emplace_back());
  ASSERT_EQ(code, HOLDFAST_NO_MEMORY);
  AnyWaiter waiter(dict, What::lock);
  EXPECT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_EQ(post(lease), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("other 0", &others.front()), HOLDFAST_OK);
  EXPECT_TRUE(waiter.get());
}

}  // namespace
}  // namespace holdfast::test
