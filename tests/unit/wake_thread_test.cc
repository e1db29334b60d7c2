// Tests waits in an event loop through the C ABI: a parker's descriptor and the wake thread behind it.
#include "wait/wake_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "support/event_loop.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using Waiting = LoopWaiting;

// --- the descriptor ---

TEST_F(WakeThreadTest, the_descriptor_is_readable_from_a_release_by_another_process_until_the_wake_up_is_collected) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const int fd = waiting.fd();
    ASSERT_GE(fd, 0) << holdfast_error();
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_FALSE(readable(fd, 50));
    release("k");
    EXPECT_TRUE(readable(fd, kLongMs));
    EXPECT_TRUE(readable(fd, 0));
    EXPECT_EQ(waiting.fd(), fd) << "the descriptor has changed";
    EXPECT_EQ(waiting.collect(), 1);
    EXPECT_FALSE(readable(fd, 0));
    EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
  });
}

TEST_F(WakeThreadTest, the_descriptor_stays_readable_while_there_is_more_to_collect) {
  in_process([this] {
    Dict dict("wake");
    const std::unique_ptr<holdfast_parker, CloseParker> parker(holdfast_parker_new());
    const int fd = holdfast_parker_fd(parker.get());
    wait_for_three_of_dead_holder(dict, parker.get());
    for (int collected = 0; collected < 3;) {
      ASSERT_TRUE(readable(fd, kLongMs)) << collected;
      std::uint32_t woken = 0;
      collected += holdfast_parker_sleep(parker.get(), 0, &woken, 1);
      EXPECT_EQ(readable(fd, 0), collected < 3) << "the descriptor must be readable while there is more mail";
    }
    EXPECT_FALSE(readable(fd, 0));
  });
}

TEST_F(WakeThreadTest, the_death_of_a_holder_makes_the_descriptor_readable) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const int fd = waiting.fd();
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_FALSE(readable(fd, 20));
    holder.kill();
    EXPECT_TRUE(readable(fd, kLongMs));
    EXPECT_EQ(waiting.collect(), 1);
    EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
  });
}

TEST_F(WakeThreadTest, a_wait_that_began_before_the_descriptor_existed_is_checked) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    Waiting other;
    ASSERT_GE(other.fd(), 0) << holdfast_error();
    ASSERT_EQ(holdfast_parker_timer(other.parker(), 3600), HOLDFAST_OK);
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    holder.kill();
    sleep_ms(20);  // now the wake thread sleeps until the other loop's timer
    EXPECT_TRUE(readable(waiting.fd(), kLongMs));
    EXPECT_EQ(waiting.collect(), 1);
  });
}

TEST_F(WakeThreadTest, a_process_that_was_stopped_finds_its_descriptor_readable) {
  take("k");
  Started waiter("waits", [](Channel& parent) {
    Dict dict("wake");
    Waiting waiting;
    const int fd = waiting.fd();
    if (waiting.once(dict, "k") != HOLDFAST_LOCKED) return 1;
    parent.say("waits");
    if (!readable(fd, kLongMs) || waiting.collect() != 1) return 2;
    return waiting.lock(dict, "k") == HOLDFAST_OK ? 0 : 3;
  });
  waiter.stop();
  release("k");
  sleep_ms(100);
  waiter.signal(SIGCONT);
  EXPECT_EQ(waiter.wait(), 0);
}

TEST_F(WakeThreadTest, taking_the_mail_makes_other_parkers_descriptors_readable) {
  in_process([this] {
    Dict dict("wake");
    Waiting in_loop;
    const int fd = in_loop.fd();
    std::atomic<bool> over{false};
    std::thread sleeper([&] {
      Waiting by_itself;
      while (!over) {
        std::uint32_t woken = 0;
        holdfast_parker_sleep(by_itself.parker(), 0.05, &woken, 1);
      }
    });
    for (int round = 0; round < 100; ++round) {
      take("k");
      ASSERT_EQ(in_loop.once(dict, "k"), HOLDFAST_LOCKED);
      release("k");
      ASSERT_TRUE(readable(fd, kLongMs)) << round;
      ASSERT_EQ(in_loop.collect(), 1);
      ASSERT_EQ(in_loop.once(dict, "k"), HOLDFAST_OK);
      ASSERT_EQ(in_loop.unlock(dict, "k"), HOLDFAST_OK);
    }
    over = true;
    sleeper.join();
  });
}

TEST_F(WakeThreadTest, a_thread_that_sleeps_on_a_parker_with_a_descriptor_is_also_woken) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const int fd = waiting.fd();
    for (int round = 0; round < 100; ++round) {
      take("k");
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
      release("k");
      std::uint32_t woken = 0;
      const double end = now() + 20;
      while (holdfast_parker_sleep(waiting.parker(), 0.4, &woken, 1) == 0) ASSERT_LT(now(), end);
      EXPECT_FALSE(readable(fd, 0));
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
      ASSERT_EQ(waiting.unlock(dict, "k"), HOLDFAST_OK);
    }
  });
}

TEST_F(WakeThreadTest, loops_of_several_threads_share_one_wake_thread) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 100;
  in_process([] {
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        Dict dict("wake");
        Waiting waiting;
        for (int round = 0; round < kRounds; ++round) {
          if (waiting.lock(dict, "shared") == HOLDFAST_OK) ++taken;
          // A thread that has finished may exist for a moment longer.
          EXPECT_TRUE(eventually([] { return wake_threads().size() <= 1; }));
          waiting.unlock(dict, "shared");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken, kThreads * kRounds);
  });
}

// --- the timer ---

TEST_F(WakeThreadTest, the_timer_makes_the_descriptor_readable_once_and_not_early) {
  in_process([] {
    Waiting waiting;
    const int fd = waiting.fd();
    for (const double seconds : {0.0, 0.001, 0.03, 0.1}) {
      const double start = now();
      ASSERT_EQ(waiting.timer(seconds), HOLDFAST_OK) << holdfast_error();
      ASSERT_TRUE(readable(fd, kLongMs)) << seconds;
      EXPECT_GE(now() - start, seconds);
      EXPECT_EQ(waiting.collect(), 0);
      EXPECT_FALSE(readable(fd, 30)) << seconds;
    }
  });
}

TEST_F(WakeThreadTest, the_timer_can_be_replaced_and_unset) {
  in_process([] {
    Waiting waiting;
    const int fd = waiting.fd();
    const double start = now();
    ASSERT_EQ(waiting.timer(60), HOLDFAST_OK);
    sleep_ms(30);
    ASSERT_EQ(waiting.timer(0.05), HOLDFAST_OK)
        << "an earlier time must take effect although the thread is already asleep";
    EXPECT_TRUE(readable(fd, kLongMs));
    EXPECT_GE(now() - start, 0.08);
    waiting.collect();
    while (!waiting.set_and_unset_timer(0.05)) waiting.collect();
    EXPECT_FALSE(readable(fd, 150));
    EXPECT_EQ(waiting.timer(std::nan("")), HOLDFAST_INVALID);
  });
}

TEST_F(WakeThreadTest, the_timer_works_without_a_wait_and_for_longer_than_the_thread_lingers) {
  in_process([] {
    Waiting waiting;
    const double start = now();
    ASSERT_EQ(waiting.timer(1.5), HOLDFAST_OK);
    EXPECT_TRUE(readable(waiting.fd(), kLongMs));
    EXPECT_GE(now() - start, 1.5);
  });
}

// --- the thread ---

TEST_F(WakeThreadTest, the_thread_exists_while_a_task_waits_and_ends_soon_afterwards) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    EXPECT_EQ(wake_threads().size(), 0U);
    take("k");
    EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_EQ(wake_threads().size(), 0U) << "a waiter that does not use the descriptor needs no thread";
    for (int round = 0; round < 2; ++round) {
      const int fd = waiting.fd();
      ASSERT_TRUE(eventually([] { return wake_threads().size() == 1; }));
      sleep_ms(1500);
      EXPECT_EQ(wake_threads().size(), 1U);
      EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
      EXPECT_TRUE(eventually([] { return wake_threads().empty(); }));
      EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
      EXPECT_TRUE(eventually([] { return wake_threads().size() == 1; })) << "the next wait must start the thread again";
      EXPECT_FALSE(readable(fd, 0));
    }
    release("k");
    EXPECT_TRUE(readable(waiting.fd(), kLongMs));
  });
}

TEST_F(WakeThreadTest, no_signal_is_handled_in_the_thread) {
  in_process([this] {
    static std::atomic<int> handled{0};
    ::signal(SIGUSR1, [](int) { ++handled; });
    Dict dict("wake");
    Waiting waiting;
    const int fd = wait_with_thread(dict, waiting);
    sigset_t usr1;
    ::sigemptyset(&usr1);
    ::sigaddset(&usr1, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
    ::kill(::getpid(), SIGUSR1);
    EXPECT_FALSE(readable(fd, 50));
    EXPECT_EQ(handled, 0) << "the wake thread handled the signal";
    ::pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
    EXPECT_EQ(handled, 1);
  });
}

TEST_F(WakeThreadTest, a_thousand_waits_leave_neither_descriptors_nor_threads) {
  in_process([this] {
    Dict dict("wake");
    std::size_t before = 0;
    for (int round = 0; round <= 1000; ++round) {
      Waiting waiting;
      const int fd = waiting.fd();
      take("k");
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
      release("k");
      ASSERT_TRUE(readable(fd, kLongMs));
      ASSERT_EQ(waiting.lock(dict, "k"), HOLDFAST_OK);
      ASSERT_EQ(waiting.unlock(dict, "k"), HOLDFAST_OK);
      waiting.free();
      if (round == 0) before = descriptors();
    }
    EXPECT_EQ(descriptors(), before);
    EXPECT_TRUE(eventually([] { return wake_threads().empty(); }));
  });
}

TEST_F(WakeThreadTest, a_parker_may_be_freed_at_any_time) {
  in_process([] {
    Dict dict("wake");
    Child busy(hold);
    busy.hear();
    busy.say(":k");
    for (int round = 0; round < 3000; ++round) {
      Waiting waiting;
      ASSERT_GE(waiting.fd(), 0);
      if (waiting.once(dict, "k") == HOLDFAST_OK) waiting.unlock(dict, "k");
      waiting.timer(0.0001 * (round % 3));
      if (round % 2 == 0) waiting.leave(dict, "k");
    }
  });
}

}  // namespace
}  // namespace holdfast::test
