// Tests what include/holdfast.h promises to hosts with threads: all threads share one handle, each thread has a parker,
// and any thread may use a lease. The locks guard plain variables, so ThreadSanitizer finds most faults.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "holdfast.hpp"
#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr int kThreads = 4;
constexpr double kLong = 60;

/// Runs `body(number)` in several threads.
void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

class ThreadsTest : public ::testing::Test {
 protected:
  const ScratchDirectory directory;
};

/// Each thread increments a variable, which nothing else guards, between `lock` and the release.
template <class Lock>
void expect_guarded(Lock&& lock) {
  constexpr int kRounds = 300;
  in_process([&] {
    Dict dict("threads");
    int count = 0;
    in_threads([&](int) {
      Waiting waiting;
      holdfast_lease lease{};
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_EQ(lock(dict, waiting, &lease), HOLDFAST_OK);
        ++count;
        ASSERT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
      }
    });
    EXPECT_EQ(count, kThreads * kRounds);
  });
}

TEST_F(ThreadsTest, a_lock_that_each_thread_waits_for_with_its_own_parker_guards_plain_memory) {
  expect_guarded(
      [](Dict& dict, Waiting& waiting, holdfast_lease* lease) { return waiting.lock(dict, "lock", kLong, lease); });
}

TEST_F(ThreadsTest, a_lock_that_each_thread_waits_for_in_a_call_guards_plain_memory) {
  expect_guarded([](Dict& dict, Waiting&, holdfast_lease* lease) {
    return unless_held_up([&] { return holdfast_lock(dict.handle, "lock", 4, kLong, 0, lease); });
  });
}

TEST_F(ThreadsTest, a_mutex_object_that_all_threads_share_guards_plain_memory) {
  constexpr int kRounds = 200;
  constexpr int kTimes = 2;  // then there are twice as many threads as slots in one block of the mutex
  in_process([] {
    Dict dict("threads");
    holdfast::mutex one(holdfast::dictionary(dict.handle), "lock");
    holdfast::shared_mutex rw(holdfast::dictionary(dict.handle), "rwlock");
    int count = 0;
    std::array<int, 2> pair{};
    const auto use = [&](int number) {
      for (int round = 0; round < kRounds; ++round) {
        {
          const std::scoped_lock guard(one);
          ++count;
        }
        if (number == 0) {
          const std::unique_lock writer(rw);
          ++pair[0];
          ++pair[1];
        } else {
          const std::shared_lock reader(rw);
          EXPECT_EQ(pair[0], pair[1]);
        }
      }
    };
    std::thread others([&] { in_threads(use); });
    in_threads(use);
    others.join();
    EXPECT_EQ(count, kTimes * kThreads * kRounds);
    EXPECT_EQ(pair[0], kTimes * kRounds);
  });
}

TEST_F(ThreadsTest, waiters_of_a_parker_may_be_opened_used_and_closed_while_another_thread_sleeps_on_it) {
  constexpr int kRounds = 200;
  in_process([] {
    Dict dict("threads");
    const std::unique_ptr<holdfast_parker, CloseParker> parker(holdfast_parker_new());
    std::atomic<bool> over{false};
    std::thread sleeper([&] {
      std::uint32_t woken[8];
      while (!over) EXPECT_GE(holdfast_parker_sleep(parker.get(), 0.01, woken, 8), 0);
    });
    in_threads([&](int number) {
      holdfast_lease lease{};
      double sleep = 0;
      for (int round = 0; round < kRounds; ++round) {
        const std::uint32_t waiter = holdfast_waiter_open(parker.get());
        const int code = dict.wait_lock("lock", 0, parker.get(), waiter, &lease, &sleep);
        if (code == HOLDFAST_OK)
          EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
        else
          EXPECT_EQ(unless_held_up([&] { return dict.leave("lock", parker.get(), waiter); }), HOLDFAST_OK) << number;
        holdfast_waiter_close(parker.get(), waiter);
      }
    });
    over = true;
    sleeper.join();
  });
}

TEST_F(ThreadsTest, a_lease_belongs_to_the_process_so_another_thread_may_release_it) {
  in_process([] {
    Dict dict("threads");
    holdfast_lease lease{};
    std::thread([&] { EXPECT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK); }).join();
    holdfast_lease other{};
    EXPECT_EQ(dict.try_lock("lock", 0, &other), HOLDFAST_LOCKED) << "the lock was lost when its thread ended";
    EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
    EXPECT_EQ(dict.try_lock("lock", 0, &other), HOLDFAST_OK);
  });
}

TEST_F(ThreadsTest, threads_that_open_one_name_concurrently_get_one_handle) {
  in_process([] {
    std::vector<holdfast_dict*> handles(kThreads);
    in_threads([&](int number) {
      Dict dict("threads");
      EXPECT_EQ(dict.status, HOLDFAST_OK);
      handles[static_cast<std::size_t>(number)] = dict.handle;
    });
    EXPECT_EQ(std::set<holdfast_dict*>(handles.begin(), handles.end()).size(), 1U);
  });
}

TEST_F(ThreadsTest, a_handle_may_be_used_while_another_thread_removes_and_reopens_the_dictionary) {
  constexpr int kRounds = 30;
  in_process([] {
    Dict dict("threads");
    std::atomic<bool> over{false};
    std::thread remover([&] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(holdfast_remove("threads", 7), HOLDFAST_OK);
        EXPECT_EQ(Dict("threads").status, HOLDFAST_OK);
      }
      over = true;
    });
    in_threads([&](int number) {
      const std::string key = "key" + std::to_string(number);
      while (!over) {
        const int set = dict.set(key, "value");
        EXPECT_TRUE(set == HOLDFAST_OK || set == HOLDFAST_REMOVED) << set;
        const int got = dict.get(key).code;
        EXPECT_TRUE(got == HOLDFAST_OK || got == HOLDFAST_NOT_FOUND || got == HOLDFAST_REMOVED) << got;
      }
    });
    remover.join();
  });
}

TEST_F(ThreadsTest, an_error_belongs_to_the_thread_that_got_it) {
  in_process([] {
    Dict dict("threads");
    EXPECT_EQ(dict.set("", "value"), HOLDFAST_INVALID);
    std::thread([&] {
      EXPECT_STREQ(holdfast_error(), "");
      EXPECT_EQ(dict.set("key", "value", -1), HOLDFAST_INVALID);
      EXPECT_NE(std::string(holdfast_error()).find("exptime"), std::string::npos) << holdfast_error();
    }).join();
    EXPECT_STREQ(holdfast_error(), "empty key");
  });
}

TEST_F(ThreadsTest, threads_may_be_inside_calls_when_the_process_exits) {
  constexpr int kProcesses = 60;
  for (int i = 0; i < kProcesses; ++i) {
    Child child([](Channel&) -> int {
      Dict dict("threads");
      std::atomic<int> begun{0};
      std::vector<std::thread> busy;
      for (int number = 0; number < kThreads; ++number) {
        busy.emplace_back([&] {
          holdfast_lease lease{};
          for (++begun;;) {
            dict.set("key", "value");
            if (dict.try_lock("lock", 0, &lease) == HOLDFAST_OK) dict.unlock("lock", &lease);
          }
        });
      }
      while (begun < kThreads) std::this_thread::yield();
      std::exit(0);
    });
    ASSERT_EQ(child.wait(), 0) << i;
  }
}

#ifndef HOLDFAST_SANITIZED  // a child may find locks of the sanitizer's run-time libraries locked
TEST_F(ThreadsTest, a_child_forked_while_threads_are_inside_can_use_what_its_parent_opened) {
  constexpr int kForks = 50;
  in_process([] {
    Dict dict("threads");
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < kThreads - 1; ++i)
      busy.emplace_back([&, i] {
        Waiting waiting;
        holdfast_lease lease{};
        while (!over) {
          Dict("other " + std::to_string(i));  // the registry refuses this invalid name
          Dict again("threads");
          if (waiting.lock(again, "lock", kLong, &lease) == HOLDFAST_OK) again.unlock("lock", &lease);
        }
      });
    for (int round = 0; round < kForks; ++round) {
      Child child([&](Channel&) {
        holdfast_lease lease{};
        Waiting waiting;
        if (Dict("threads").handle != dict.handle) return 1;
        if (dict.set("key", "value") != HOLDFAST_OK) return 2;
        return waiting.lock(dict, "lock", kLong, &lease) == HOLDFAST_OK
                   ? 0
                   : 3;  // the child is killed while it holds the lock
      });
      ASSERT_EQ(child.wait(), 0) << round;
    }
    over = true;
    for (std::thread& thread : busy) thread.join();
  });
}

TEST_F(ThreadsTest, a_child_forked_during_another_threads_first_wait_can_wait_too) {
  constexpr int kProcesses = 200;
  for (int i = 0; i < kProcesses && !HasFailure(); ++i) {
    in_process([i] {
      Dict dict("threads");
      std::atomic<bool> begins{false};
      std::thread first([&] {
        begins = true;
        // The loop ends at some time during the fork below.
        const double end = now() + 1e-6 * i;
        while (now() < end) {
        }
        Waiting waiting;
      });
      while (!begins) {
      }
      Child child([&](Channel&) {
        holdfast_lease lease{};
        return Waiting().lock(dict, "lock", kLong, &lease) == HOLDFAST_OK ? 0 : 1;
      });
      EXPECT_EQ(child.wait(), 0);
      first.join();
    });
  }
}
#endif

}  // namespace
}  // namespace holdfast::test
