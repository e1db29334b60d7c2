// Tests holdfast::mutex and shared_mutex: with the guards of the standard library, between threads and between
// processes.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "cpp/cpp_test.h"

namespace holdfast::test {
namespace {

class CppMutex : public CppTest {
 protected:
  static std::error_code code_of(const std::function<void()>& body) {
    try {
      body();
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }
};

TEST_F(CppMutex, guards_a_scope) {
  mutex one(dict, "k");
  {
    const std::lock_guard guard(one);
    EXPECT_TRUE(one.valid());
    EXPECT_NE(one.token(), 0U);
    EXPECT_FALSE(is_free("k"));
  }
  EXPECT_FALSE(one.valid());
  EXPECT_EQ(one.token(), 0U);
  EXPECT_TRUE(is_free("k"));
}

TEST_F(CppMutex, excludes_other_objects_with_the_same_key_and_other_processes) {
  mutex one(dict, "k");
  mutex other(dict, "k");
  const std::unique_lock guard(one);
  EXPECT_FALSE(other.try_lock());
  Child child([&](Channel&) { return other.try_lock_for(20ms) ? 1 : 0; });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(CppMutex, can_be_tried_for_a_duration_and_until_a_time) {
  mutex one(dict, "k");
  mutex other(dict, "k");
  one.lock();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(std::unique_lock(other, 30ms));
  EXPECT_FALSE(std::unique_lock(other, std::chrono::steady_clock::now() + 30ms));
  EXPECT_FALSE(std::unique_lock(other, std::chrono::system_clock::now() + 30ms));
  EXPECT_FALSE(std::unique_lock(other, std::try_to_lock));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 90ms);
  EXPECT_FALSE(other.try_lock_for(-1s));
  one.unlock();
  EXPECT_TRUE(std::unique_lock(other, 30ms));
  EXPECT_TRUE(std::unique_lock(other, std::chrono::system_clock::now() + 30ms));
}

TEST_F(CppMutex, can_be_locked_together_with_others_in_any_order_without_a_deadlock) {
  constexpr int kRounds = 100;
  mutex one(dict, "one");
  mutex two(dict, "two");
  mutex three(dict, "three");
  int count = 0;
  std::thread forwards([&] {
    for (int round = 0; round < kRounds; ++round) {
      const std::scoped_lock guard(one, two, three);
      ++count;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    const std::scoped_lock guard(three, two, one);
    ++count;
  }
  forwards.join();
  EXPECT_EQ(count, 2 * kRounds);
}

TEST_F(CppMutex, throws_in_one_of_two_threads_that_wait_for_each_other) {
  mutex alice(dict, "alice");
  mutex bob(dict, "bob");
  std::array<std::error_code, 2> codes;
  const auto cross = [](mutex& first, mutex& second, std::barrier<>& both, std::error_code& code) {
    const std::scoped_lock guard(first);
    both.arrive_and_wait();
    code = code_of([&] { const std::scoped_lock inner(second); });
  };
  std::barrier<> both(2);
  std::thread other([&] { cross(bob, alice, both, codes[1]); });
  cross(alice, bob, both, codes[0]);
  other.join();
  EXPECT_EQ(std::count(codes.begin(), codes.end(), std::errc::resource_deadlock_would_occur), 1);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), std::error_code()), 1);
}

TEST_F(CppMutex, finds_a_deadlock_with_another_process) {
  Child child([&](Channel& parent) {
    mutex theirs(dict, "theirs");
    mutex ours(dict, "ours");
    const std::scoped_lock guard(theirs);
    parent.say("holds");
    parent.hear();
    const result<void> got = ours.acquire(60s);
    return got || got.error().code == errc::deadlock ? 0 : 1;
  });
  mutex theirs(dict, "theirs");
  mutex ours(dict, "ours");
  std::unique_lock guard(ours);
  ASSERT_EQ(child.hear(), "holds");
  child.say("wait");
  await_waiters("ours", 1);
  const result<void> got = theirs.acquire(60s);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, errc::deadlock);
  EXPECT_EQ(got.error().message,
            "the wait would never end: the holder of \"theirs\" waits for \"ours\", and the caller holds \"ours\"");
  guard.unlock();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(CppMutex, reports_a_thread_that_already_holds_it) {
  mutex one(dict, "k");
  const std::scoped_lock guard(one);
  EXPECT_EQ(code_of([&] { one.lock(); }), std::errc::resource_deadlock_would_occur);
  EXPECT_TRUE(one.valid());
}

TEST_F(CppMutex, lost_by_a_thread_is_not_unlocked_under_its_new_owner) {
  mutex one(dict, "k", {.exptime = 10ms});
  one.lock();
  std::thread other([&] {
    one.lock();
    EXPECT_TRUE(one.renew(60s));
  });
  other.join();
  EXPECT_FALSE(one.valid());
  EXPECT_EQ(one.release().error().code, errc::not_owner);
  EXPECT_EQ(one.release().error().message, "this thread has not locked it");
  one.unlock();
  EXPECT_FALSE(is_free("k"));
}

TEST_F(CppMutex, is_free_after_one_unlock_if_a_thread_lost_it_and_locked_it_again) {
  mutex one(dict, "k", {.exptime = 10ms});
  one.lock();
  while (one.valid()) std::this_thread::sleep_for(1ms);
  one.lock();
  EXPECT_TRUE(one.renew(60s));
  one.unlock();
  EXPECT_TRUE(is_free("k"));
}

TEST_F(CppMutex, throws_if_its_dictionary_was_removed) {
  const std::string other = new_name();
  mutex one(dictionary::open(other, {.size = kSize}).value(), "k");
  EXPECT_TRUE(dictionary::remove(other));
  EXPECT_EQ(code_of([&] { one.lock(); }), errc::removed);
  EXPECT_EQ(code_of([&] { one.try_lock(); }), errc::removed);
  EXPECT_EQ(one.acquire(1s).error().code, errc::removed);
}

TEST_F(CppMutex, is_released_when_the_object_is_destroyed) {
  std::optional<mutex> one(std::in_place, dict, "k");
  one->lock();
  one.reset();
  EXPECT_TRUE(is_free("k"));
}

TEST_F(CppMutex, works_with_a_condition_variable) {
  mutex one(dict, "k");
  std::condition_variable_any changed;
  bool ready = false;
  std::thread other([&] {
    const std::scoped_lock guard(one);
    ready = true;
    changed.notify_one();
  });
  std::unique_lock guard(one);
  changed.wait(guard, [&] { return ready; });
  other.join();
  EXPECT_TRUE(ready);
}

TEST_F(CppMutex, is_not_owned_by_a_forked_child) {
  mutex one(dict, "k");
  one.lock();
  Child child([&](Channel&) {
    if (one.valid() || one.try_lock()) return 1;
    one.unlock();
    return one.try_lock() ? 2 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(one.valid());
  EXPECT_TRUE(one.release());
}

TEST_F(CppMutex, has_many_readers_or_one_writer_if_it_is_shared) {
  shared_mutex rw(dict, "rw");
  {
    const std::shared_lock reader(rw);
    std::thread([&] {
      EXPECT_TRUE(std::shared_lock(rw, 60s));
      EXPECT_FALSE(std::unique_lock(rw, 10ms));
    }).join();
  }
  EXPECT_TRUE(rw.try_lock_shared_until(std::chrono::system_clock::now()));
  rw.unlock_shared();
  const std::unique_lock writer(rw, std::chrono::steady_clock::now() + 60s);
  EXPECT_TRUE(writer);
  std::thread([&] { EXPECT_FALSE(std::shared_lock(rw, 10ms)); }).join();
  EXPECT_EQ(code_of([&] { rw.lock(); }), std::errc::resource_deadlock_would_occur);
}

TEST_F(CppMutex, can_make_a_reader_the_writer_if_it_is_shared) {
  shared_mutex rw(dict, "rw");
  EXPECT_EQ(rw.upgrade().error().code, errc::not_owner);
  int value = 0;
  std::atomic<int> deadlocks{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int counted = 0; counted < 50;) {
        const std::shared_lock reader(rw);
        const int seen = value;
        const result<void> upgraded = rw.upgrade(60s);
        if (!upgraded) {
          EXPECT_EQ(upgraded.error().code, errc::deadlock);
          ++deadlocks;
          continue;
        }
        EXPECT_EQ(value, seen);
        value = seen + 1;
        ++counted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, 150);
  const std::shared_lock reader(rw);
  EXPECT_TRUE(rw.upgrade());
  EXPECT_TRUE(rw.valid());
}

}  // namespace
}  // namespace holdfast::test
