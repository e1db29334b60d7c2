// Tests that fork() waits for the calls in progress, and for nothing else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "platform/platform.h"
#include "support/clock.h"
#include "support/dict.h"
#include "support/process.h"

namespace holdfast::test {

namespace {

constexpr int kThreads = 8;
/// The test's threads stop after this many calls. A fork() that waits for all their calls, not only for the calls in
/// progress, lasts until then.
constexpr long kCallsMax = 20'000;

std::atomic<long> calls{0};
std::atomic<long> calls_before_fork{0};

/// Returns the exit status of a child that runs `body`, or 128 plus the signal that killed it.
template <class Body>
int status_of_fork(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Returns how many calls the threads made between the beginning of fork() and the start of the child.
long calls_during_fork() {
  calls = 0;
  eventually([] { return calls > kThreads; });
  return status_of_fork([] { return static_cast<int>(std::min(calls - calls_before_fork, 255L)); });
}

/// Returns the median of several forks. If a thread is delayed between two steps of a fork, the other threads make many
/// calls in the meantime.
template <class Call>
long median_of_calls_during_fork(Call&& call) {
  ::pthread_atfork([] { calls_before_fork = calls.load(); }, nullptr, nullptr);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (!done) {
        if (calls >= kCallsMax) {
          sleep_ms(1);
          continue;
        }
        call(i);
        ++calls;
      }
    });
  }
  std::array<long, 15> counts{};
  for (long& count : counts) count = calls_during_fork();
  done = true;
  for (std::thread& thread : threads) thread.join();
  std::sort(counts.begin(), counts.end());
  return counts[counts.size() / 2];
}

}  // namespace

TEST(fork, waits_only_for_the_calls_in_progress) {
  const ScratchDirectory scratch;
  Child child([](Channel&) {
    // The dictionary is so large that the threads delay only the fork, and not each other.
    Dict dict("d", {.size = 16 << 20, .mutex = HOLDFAST_MUTEX_FILE});
    const long made = median_of_calls_during_fork([&](int i) { dict.set("key" + std::to_string(i), "value"); });
    return static_cast<int>(std::min(made, 255L));
  });
  EXPECT_LE(child.wait(), 2 * kThreads);
}

TEST(fork, comes_before_new_guards_and_after_nested_ones) {
  Child child([](Channel&) {
    std::atomic<bool> held{false};
    std::atomic<bool> nest{false};
    std::atomic<bool> forked{false};
    std::thread holder([&] {
      const platform::ForkGuard outer;
      held = true;
      while (!nest) sleep_ms(1);
      const platform::ForkGuard inner;
    });
    while (!held) sleep_ms(1);
    std::thread forking([&] {
      status_of_fork([] { return 0; });
      forked = true;
    });
    // Guards begin before the fork.
    std::atomic<long> begun{0};
    std::atomic<bool> done{false};
    std::thread newcomer([&] {
      while (!done) {
        const platform::ForkGuard guard;
        ++begun;
      }
    });
    const bool stopped = eventually([&] {
      const long before = begun;
      sleep_ms(100);
      return begun == before;
    });
    const bool waited = !forked;
    nest = true;
    const bool continued = eventually([&] { return forked.load(); });
    done = true;
    if (!stopped || !waited || !continued) ::_exit(1);
    for (std::thread* thread : {&holder, &forking, &newcomer}) thread->join();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(fork, does_not_wait_for_its_own_threads_guard) {
  Child child([](Channel&) {
    static std::atomic<int> status{-1};
    std::signal(SIGUSR1, [](int) { status = status_of_fork([] { return 7; }); });
    {
      const platform::ForkGuard guard;
      ::raise(SIGUSR1);
    }
    // The gate is unchanged, here and in a child.
    return status == 7 && status_of_fork([] {
                            const platform::ForkGuard guard;
                            return status_of_fork([] { return 5; });
                          }) == 5
               ? 0
               : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(fork, finds_a_long_mutex_free_even_if_another_thread_held_it) {
  Child child([](Channel&) {
    static platform::LongMutex mutex;
    std::atomic<bool> held{false};
    std::atomic<bool> done{false};
    std::thread holder([&] {
      const platform::LongMutex::Hold hold(mutex);
      held = true;
      while (!done) sleep_ms(1);
    });
    while (!held) sleep_ms(1);
    const int status = status_of_fork([] {
      const platform::LongMutex::Hold hold(mutex);
      return 3;
    });
    done = true;
    holder.join();
    const platform::LongMutex::Hold hold(mutex);
    return status == 3 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(long_mutex, is_held_by_one_thread_at_a_time) {
  platform::LongMutex mutex;
  long plain = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        const platform::LongMutex::Hold hold(mutex);
        ++plain;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, kThreads * 5000);
}

// A process that is stopped while it creates a file holds the directory's lock.
TEST(fork, does_not_wait_for_an_open_that_waits) {
  const ScratchDirectory scratch;
  Child child([&](Channel&) {
    Dict known("known");
    const int directory = ::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY);
    if (::flock(directory, LOCK_EX) != 0) return 2;
    std::atomic<bool> waits{false};
    int removed = -1;
    std::thread removing([&] {
      waits = true;
      removed = holdfast_remove("known", 5);
    });
    while (!waits) sleep_ms(1);
    sleep_ms(200);
    // The child uses the directory whose lock the parent's thread holds.
    const int status = status_of_fork([] {
      Dict again("known");
      return again.status == HOLDFAST_OK ? 3 : 1;
    });
    ::flock(directory, LOCK_UN);
    removing.join();
    // If the fork had waited for the removal, the removal would have timed out.
    return status == 3 && removed == HOLDFAST_OK ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace holdfast::test
