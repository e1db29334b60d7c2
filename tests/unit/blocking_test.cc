// Tests holdfast_lock and holdfast_acquire: what a waiting thread gets, and which events end its wait.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/dict_test.h"
#include "support/others.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 60;
constexpr double kShort = 0.05;
constexpr double kForever = INFINITY;

bool is_empty(const holdfast_lease& lease) { return lease.owner == 0 && lease.sequence == 0; }

class BlockingTest : public DictTest {
 protected:
  using DictTest::DictTest;

  int lock(std::string_view key, double timeout, holdfast_lease* taken, double exptime = 0) {
    return holdfast_lock(dict.handle, key.data(), key.size(), timeout, exptime, taken);
  }
  int acquire(std::string_view key, const holdfast_request& request, holdfast_lease* taken) {
    return holdfast_acquire(dict.handle, key.data(), key.size(), &request, taken);
  }
  /// Takes "k", which must be free.
  void hold() { ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK); }
  void release() { ASSERT_EQ(dict.unlock("k", &held), HOLDFAST_OK); }
  void await_waiters(std::uint32_t count, std::string_view key = "k") {
    EXPECT_TRUE(eventually([&] { return dict.queued(key) == count; })) << dict.queued(key) << " waiters";
  }
  /// A thread that waits for "k" without a timeout.
  std::thread waiting_thread(std::atomic<int>* code) {
    return std::thread([this, code] { *code = lock("k", kForever, &lease); });
  }

  holdfast_lease held{};
  holdfast_lease lease{};
};

TEST_F(BlockingTest, a_free_lock_is_granted_immediately) {
  EXPECT_EQ(lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_NE(lease.owner, 0U);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(lock("k", kLong, &lease, 0.01), HOLDFAST_OK);
  EXPECT_LE(dict.remaining("k", lease), 0.011);
}

// The holder's lock never expires.
TEST_F(BlockingTest, a_held_lock_is_granted_when_its_holder_releases_it_or_is_killed) {
  for (const bool killed : {false, true}) {
    Holder holder(dict);
    std::atomic<int> code{-1};
    std::thread thread = waiting_thread(&code);
    await_waiters(1);
    if (killed)
      holder.kill_and_wait();
    else
      EXPECT_EQ(holder.ask("release it"), std::to_string(HOLDFAST_OK));
    thread.join();
    EXPECT_EQ(code, HOLDFAST_OK) << killed;
    EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  }
}

TEST_F(BlockingTest, a_call_that_does_not_wait_does_not_queue) {
  hold();
  for (const double timeout : {0.0, -1.0, -kForever}) {
    lease = {7, 7};
    EXPECT_EQ(lock("k", timeout, &lease), HOLDFAST_LOCKED) << timeout;
    EXPECT_TRUE(is_empty(lease));
  }
  EXPECT_EQ(dict.stats().lock_waits, 0U);
}

TEST_F(BlockingTest, a_wait_does_not_end_before_its_time_and_leaves_no_waiter) {
  hold();
  for (int round = 0; round < 5; ++round) {
    lease = {7, 7};
    const double start = now();
    EXPECT_EQ(lock("k", kShort, &lease), HOLDFAST_LOCKED);
    EXPECT_GE(now() - start, kShort);
    EXPECT_TRUE(is_empty(lease));
    EXPECT_EQ(dict.queued("k"), 0U);
  }
  release();
}

TEST_F(BlockingTest, a_lock_is_granted_when_it_expires) {
  ASSERT_EQ(dict.try_lock("k", kShort, &held), HOLDFAST_OK);
  EXPECT_EQ(lock("k", kLong, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &held), HOLDFAST_NOT_OWNER);
}

TEST_F(BlockingTest, threads_get_the_lock_in_order_of_arrival) {
  constexpr int kCount = 5;
  hold();
  std::vector<int> order;  // guarded by the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < kCount; ++i) {
    threads.emplace_back([&, i] {
      holdfast_lease mine{};
      EXPECT_EQ(acquire("k", HOLDFAST_REQUEST(.timeout = kForever, .fair = 1), &mine), HOLDFAST_OK);
      order.push_back(i);
      EXPECT_EQ(dict.unlock("k", &mine), HOLDFAST_OK);
    });
    await_waiters(static_cast<std::uint32_t>(i) + 1);
  }
  release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

// The lock is free, but its queue contains a waiter that never claims it, so each poll of a busy wait takes the mutex.
TEST_F(BlockingTest, a_spin_waits_for_the_mutex_of_a_stopped_process_once) {
  const std::string name = new_name();
  Dict other(name, {.size = 32768});  // one shard
  ASSERT_EQ(other.try_lock("k", 0, &held), HOLDFAST_OK);
  const Queued queued(other);
  ASSERT_EQ(other.unlock("k", &held), HOLDFAST_OK);
  ASSERT_EQ(other.expire("k", 1), HOLDFAST_NOT_FOUND);  // takes the fast path away
  Inside inside(other);
  Waiting waiting;
  const double start = now();
  EXPECT_EQ(waiting.once(other, "k", &lease), HOLDFAST_TIMEOUT);
  EXPECT_LT(now() - start, 0.3);
  inside.say("leave");
  EXPECT_EQ(inside.hear(), "outside");
  ASSERT_EQ(holdfast_remove(name.data(), name.size()), HOLDFAST_OK);
}

// --- events that do not end a wait ---

std::atomic<int> signals{0};

TEST_F(BlockingTest, signals_do_not_end_a_wait) {
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals; };  // without SA_RESTART
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  hold();
  std::atomic<bool> over{false};
  int early = -1;
  std::atomic<int> code{-1};
  double waited = 0;
  std::thread thread([&] {
    const double start = now();
    early = lock("k", 4 * kShort, &lease);
    waited = now() - start;
    code = lock("k", kForever, &lease);
    over = true;
  });
  const pthread_t waiting = thread.native_handle();
  for (int round = 0; round < 100; ++round) {
    ::pthread_kill(waiting, SIGUSR1);
    sleep_ms(3);
  }
  EXPECT_FALSE(over);
  release();
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GE(signals, 1);
  EXPECT_EQ(early, HOLDFAST_LOCKED);
  EXPECT_GE(waited, 4 * kShort);
  EXPECT_EQ(code, HOLDFAST_OK);
}

TEST_F(BlockingTest, a_fork_during_a_wait_does_not_end_it_and_the_child_can_also_wait) {
  hold();
  std::atomic<int> code{-1};
  std::thread thread = waiting_thread(&code);
  await_waiters(1);
  Child child([&](Channel& parent) {
    holdfast_lease mine{};
    parent.say(std::to_string(lock("k", kShort, &mine)));
    return lock("k", kLong, &mine) == HOLDFAST_OK ? 0 : 1;  // the process is later killed while it holds "k"
  });
  EXPECT_EQ(child.hear(), std::to_string(HOLDFAST_LOCKED));
  await_waiters(2);
  release();
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(BlockingTest, a_wait_survives_a_process_that_was_stopped_inside_for_a_while) {
  Inside inside(dict);
  std::atomic<int> code{-1};
  std::thread thread = waiting_thread(&code);
  sleep_ms(200);
  EXPECT_EQ(code, -1);
  EXPECT_EQ(inside.ask("leave"), "outside");
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
}

TEST_F(BlockingTest, a_wait_that_a_stopped_process_blocks_ends_with_a_timeout_that_names_the_process) {
  Inside inside(dict);
  EXPECT_EQ(lock("k", kShort, &lease), HOLDFAST_TIMEOUT);
  EXPECT_NE(std::string(holdfast_error()).find("process " + std::to_string(inside.pid())), std::string::npos)
      << holdfast_error();
  EXPECT_EQ(inside.ask("leave"), "outside");
  EXPECT_EQ(inside.wait(), 0);
}

// --- changes of the key ---

TEST_F(BlockingTest, a_wait_for_a_key_with_a_value_ends_when_the_value_is_removed) {
  dict.set("k", "v");
  EXPECT_EQ(lock("k", kShort, &lease), HOLDFAST_LOCKED);
  std::atomic<int> code{-1};
  std::thread thread = waiting_thread(&code);
  sleep_ms(20);
  dict.remove("k");
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
}

TEST_F(BlockingTest, a_wait_ends_when_its_dictionary_is_removed) {
  const std::string name = new_name();
  Dict other(name);
  ASSERT_EQ(other.try_lock("k", 0, &held), HOLDFAST_OK);
  std::atomic<int> code{-1};
  std::thread thread([&] { code = holdfast_lock(other.handle, "k", 1, kForever, 0, &lease); });
  sleep_ms(50);
  ASSERT_EQ(holdfast_remove(name.data(), name.size()), HOLDFAST_OK);
  thread.join();
  EXPECT_EQ(code, HOLDFAST_REMOVED);
  EXPECT_TRUE(is_empty(lease));
}

TEST_F(BlockingTest, a_full_dictionary_reports_no_memory_immediately) {
  std::string key(30, 'x');
  int code = HOLDFAST_OK;
  for (int i = 0; code == HOLDFAST_OK; ++i) code = lock(key + std::to_string(i), kForever, &lease);
  EXPECT_EQ(code, HOLDFAST_NO_MEMORY);
  EXPECT_TRUE(is_empty(lease));
}

// --- the request ---

TEST_F(BlockingTest, readers_share_a_rwlock_and_a_writer_waits_for_all_of_them) {
  const holdfast_request read = HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .want = 1);
  std::array<holdfast_lease, 2> readers{};
  for (holdfast_lease& reader : readers) ASSERT_EQ(acquire("rw", read, &reader), HOLDFAST_OK);
  const holdfast_request write =
      HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .timeout = kLong, .want = HOLDFAST_ALL_PERMITS);
  std::atomic<int> code{-1};
  std::thread writer([&] { code = acquire("rw", write, &lease); });
  await_waiters(1, "rw");
  EXPECT_EQ(acquire("rw", read, &held), HOLDFAST_LOCKED) << "a writer is ahead of the reader in the queue";
  for (holdfast_lease& reader : readers) {
    EXPECT_EQ(code, -1);
    ASSERT_EQ(dict.unlock("rw", &reader), HOLDFAST_OK);
  }
  writer.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("rw", &lease), HOLDFAST_OK);
}

TEST_F(BlockingTest, a_semaphore_grants_all_of_its_permits_but_no_more) {
  const holdfast_request two =
      HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_SEMAPHORE, .timeout = kShort, .want = 2, .total = 3);
  ASSERT_EQ(acquire("s", two, &held), HOLDFAST_OK);
  EXPECT_EQ(acquire("s", two, &lease), HOLDFAST_LOCKED);
  ASSERT_EQ(dict.keep("s", held, 1), HOLDFAST_OK);
  EXPECT_EQ(acquire("s", two, &lease), HOLDFAST_OK);
}

TEST_F(BlockingTest, other_processes_can_read_the_reason_which_is_truncated_to_its_limit) {
  const std::string longer(HOLDFAST_WHY_MAX + 10, 'w');
  for (const std::string& why : {std::string("monthly figures"), longer}) {
    ASSERT_EQ(acquire("k", HOLDFAST_REQUEST(.exptime = 50, .why = why.c_str()), &lease), HOLDFAST_OK);
    holdfast_holder holder{};
    ASSERT_EQ(dict.holder("k", &holder), HOLDFAST_OK);
    EXPECT_EQ(holder.why, why.substr(0, HOLDFAST_WHY_MAX));
    EXPECT_GT(holder.remaining, 0);
    ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  }
}

TEST_F(BlockingTest, one_of_two_threads_that_wait_for_each_other_gets_deadlock_and_its_keys) {
  std::array<int, 2> codes{};
  std::array<std::string, 2> sentences;
  std::atomic<int> ready{0};
  const std::uint32_t tasks = holdfast_task_ids();
  const auto cross = [&](std::uint32_t number, const std::string& first, const std::string& second) {
    const std::uint32_t task = tasks + 1 + number;
    const holdfast_request request =
        HOLDFAST_REQUEST(.timeout = kLong, .holds = HOLDFAST_HOLDS_SOMETHING, .task = task, .holder_task = task);
    holdfast_lease one{};
    holdfast_lease two{};
    ASSERT_EQ(acquire(first, request, &one), HOLDFAST_OK);
    for (++ready; ready < 2;) std::this_thread::yield();
    codes[number] = acquire(second, request, &two);
    sentences[number] = holdfast_error();
    if (codes[number] == HOLDFAST_OK) dict.unlock(second, &two);
    dict.unlock(first, &one);
  };
  std::thread a(cross, 0, "alice", "bob");
  std::thread b(cross, 1, "bob", "alice");
  a.join();
  b.join();
  const std::size_t victim = codes[0] == HOLDFAST_DEADLOCK ? 0 : 1;
  EXPECT_EQ(codes[victim], HOLDFAST_DEADLOCK);
  EXPECT_EQ(codes[1 - victim], HOLDFAST_OK);
  EXPECT_EQ(sentences[victim],
            victim == 0
                ? "the wait would never end: the holder of \"bob\" waits for \"alice\", and the caller holds \"alice\""
                : "the wait would never end: the holder of \"alice\" waits for \"bob\", and the caller holds \"bob\"");
}

TEST_F(BlockingTest, invalid_requests_are_refused_with_a_message_and_do_not_change_the_lease) {
  const auto refused = [&](const holdfast_request& request, const char* said) {
    lease = {7, 7};
    EXPECT_EQ(acquire("k", request, &lease), HOLDFAST_INVALID) << said;
    EXPECT_NE(std::string(holdfast_error()).find(said), std::string::npos) << holdfast_error();
    EXPECT_EQ(lease.owner, 7U);
  };
  lease = {7, 7};
  EXPECT_EQ(lock("", 1, &lease), HOLDFAST_INVALID);
  EXPECT_EQ(lock("k", NAN, &lease), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad timeout: expected a number of seconds");
  EXPECT_EQ(lock("k", 1, &lease, -1), HOLDFAST_INVALID);
  EXPECT_EQ(lock("k", 1, &lease, NAN), HOLDFAST_INVALID);
  EXPECT_EQ(lease.owner, 7U);
  refused(HOLDFAST_REQUEST(.timeout = NAN), "bad timeout");
  refused(HOLDFAST_REQUEST(.exptime = -1), "bad \"exptime\"");
  refused(HOLDFAST_REQUEST(.kind = 3), "bad request kind: expected a value of holdfast_held");
  refused(HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_LOCK, .want = 1), "expected want and total to be 0");
  refused(HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK), "1 to read, or HOLDFAST_ALL_PERMITS to write");
  refused(HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_SEMAPHORE, .want = 4, .total = 3), "1 to 3 (the total)");
  holdfast_request request{};
  request.struct_size = 0;
  refused(request,
          "bad struct_size of holdfast_request: expected sizeof(holdfast_request), which HOLDFAST_REQUEST() sets, "
          "got 0");
}

TEST_F(BlockingTest, a_request_of_a_later_version_is_accepted_if_it_uses_only_known_fields) {
  struct Later {
    holdfast_request request;
    double something = 0;
  } later;
  later.request.struct_size = sizeof later;
  EXPECT_EQ(acquire("k", later.request, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  later.something = 1;
  EXPECT_EQ(acquire("k", later.request, &lease), HOLDFAST_INVALID);
  EXPECT_NE(std::string(holdfast_error()).find("does not know"), std::string::npos) << holdfast_error();
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK) << "the refused call took the lock";
}

// --- the error text ---

TEST_F(BlockingTest, the_message_exists_whether_it_is_requested_before_the_call_or_after) {
  std::thread([&] {
    const char* const asked_before = holdfast_error();
    EXPECT_STREQ(asked_before, "");
    EXPECT_EQ(lock("", 1, &lease), HOLDFAST_INVALID);
    EXPECT_STREQ(asked_before, "empty key");
    EXPECT_EQ(lock("k", 1, &lease, -1), HOLDFAST_INVALID);
    EXPECT_NE(std::string(asked_before).find("exptime"), std::string::npos) << asked_before;
    hold();
    EXPECT_EQ(lock("k", 0, &lease), HOLDFAST_LOCKED);
    EXPECT_STREQ(asked_before, "") << "this code needs no message";
    EXPECT_EQ(holdfast_error(), asked_before);
  }).join();
}

TEST_F(BlockingTest, each_code_has_one_text) {
  EXPECT_STREQ(holdfast_strerror(lock("", 1, &lease)), "empty key");
  EXPECT_STREQ(holdfast_strerror(lock("k", 1, &lease)), "ok") << "the message of an earlier call remained";
  EXPECT_STREQ(holdfast_error(), "empty key") << "a call that succeeds does not change the message";
  EXPECT_STREQ(holdfast_strerror(lock("k", 0, &held)), "locked")
      << "the result must be the code's text, because there is no message";
  EXPECT_EQ(lock("", 1, &held), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_strerror(HOLDFAST_LOCKED), "locked") << "the result must be the text of another code";
  EXPECT_STREQ(holdfast_strerror(99), "unknown code");
}

TEST_F(BlockingTest, no_failed_call_leaves_another_calls_message) {
  holdfast_dict* none = nullptr;
  holdfast_value keys{};
  holdfast_holder holder{};
  std::uint32_t count = 0;
  hold();
  dict.set("text", "v");
  const std::vector<std::function<int()>> calls{
      [&] { return dict.try_lock("k", 0, &lease); },
      [&] { return lock("k", 0, &lease); },
      [&] { return lock("k", 0.001, &lease); },
      [&] { return dict.unlock("text", &lease); },
      [&] { return dict.holder("free", &holder); },
      [&] { return dict.get("nothing").code; },
      [&] { return dict.add("text", "w"); },
      [&] { return holdfast_llen(dict.handle, "text", 4, &count); },
      [&] { return holdfast_attach("no such dictionary", 18, &none); },
      [&] {
        return holdfast_name_program("late", 4) == HOLDFAST_OK ? holdfast_name_program("again", 5) : HOLDFAST_EXISTS;
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(dict.set("", "v"), HOLDFAST_INVALID);
    EXPECT_NE(calls[i](), HOLDFAST_OK) << i;
    EXPECT_STRNE(holdfast_error(), "empty key") << i;
  }
  const std::vector<std::function<int()>> wordless{
      [&] { return dict.try_lock("k", 0, &lease); },
      [&] { return dict.get("nothing").code; },
      [&] { return holdfast_keys(dict.handle, 0, &keys, &count); },
  };
  for (const auto& call : wordless) {
    EXPECT_EQ(dict.set("", "v"), HOLDFAST_INVALID);
    const int code = call();
    EXPECT_STREQ(holdfast_error(), "") << "this code needs no message: " << code;
  }
}

}  // namespace
}  // namespace holdfast::test
