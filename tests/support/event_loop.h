// The parts that tests of waits in an event loop share: a parker with a descriptor, and a second process that holds the
// locks.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {

inline bool readable(int fd, int patience_ms) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, patience_ms) == 1 && (waiting.revents & POLLIN) != 0;
}
inline constexpr int kLongMs = 20'000;

/// Returns the ids of this process's threads with this name.
inline std::vector<std::string> threads_named(const std::string& wanted) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    if (std::getline(comm, name) && name == wanted) found.push_back(entry.path().filename());
  }
  return found;
}
inline std::vector<std::string> wake_threads() { return threads_named("holdfast-wake"); }

/// Returns the number of this process's threads.
inline std::size_t threads() {
  const auto all = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline std::size_t descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// A waiter in a loop that waits for the descriptor of the waiter's parker.
class LoopWaiting : public Parked {
 public:
  int fd() { return holdfast_parker_fd(parker()); }
  int timer(double seconds) { return holdfast_parker_timer(parker(), seconds); }
  /// Sets the timer and clears it. Returns false if this took so long that the timer may have expired, as it may on a
  /// busy machine.
  bool set_and_unset_timer(double seconds) {
    const double start = now();
    EXPECT_EQ(timer(seconds), HOLDFAST_OK);
    EXPECT_EQ(timer(-1), HOLDFAST_OK);
    return now() - start < seconds;
  }
  int once(Dict& dict, const std::string& key) { return wait_for_lock(dict, key, &lease_, 0); }
  int unlock(Dict& dict, const std::string& key) { return dict.unlock(key, &lease_); }
  /// Does what an event loop does when the descriptor is readable. Returns the number of woken waiters.
  int collect() {
    std::array<std::uint32_t, 16> woken{};
    return holdfast_parker_sleep(parker(), 0, woken.data(), woken.size());
  }
  /// Waits for the lock in a loop that knows only the descriptor.
  int lock(Dict& dict, const std::string& key) {
    const double end = now() + 60;
    while (now() < end) {
      const int fd = this->fd();
      if (const int code = once(dict, key); code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
      readable(fd, static_cast<int>(sleep_time() * 1000) + 1);
      collect();
    }
    return HOLDFAST_TIMEOUT;
  }
  void free() { parker_.reset(); }

 private:
  holdfast_lease lease_{};
};

/// Holds locks on request: "+key" takes a lock, "-key" releases it, and ":key" takes and releases it again and again.
inline int hold(Channel& parent) {
  Dict dict("wake");
  holdfast_lease lease{};
  parent.say(std::to_string(dict.status));
  for (;;) {
    const std::string line = parent.hear();
    if (line.empty() || line.front() == '(') return 0;
    const std::string key = line.substr(1);
    while (line.front() == ':') {
      if (dict.try_lock(key, 0, &lease) == HOLDFAST_OK) dict.unlock(key, &lease);
    }
    parent.say(std::to_string(line.front() == '+' ? dict.try_lock(key, 0, &lease) : dict.unlock(key, &lease)));
  }
}

/// A process has only one wake thread, so each test runs in a new process.
class WakeThreadTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(holder.hear(), "0"); }
  void take(const std::string& key) { ASSERT_EQ(holder.ask("+" + key), "0"); }
  void release(const std::string& key) { ASSERT_EQ(holder.ask("-" + key), "0"); }

  /// Runs `body` in a new process, with a waiter in the dictionary in which `holder` holds its locks.
  static void in_loop(const std::function<void(Dict&, LoopWaiting&)>& body) {
    in_process([&body] {
      Dict dict("wake");
      LoopWaiting waiting;
      body(dict, waiting);
    });
  }
  /// Queues for the held lock "k" while the descriptor's wake thread runs. Returns the descriptor.
  int wait_with_thread(Dict& dict, LoopWaiting& waiting) {
    take("k");
    const int fd = waiting.fd();
    EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_TRUE(eventually([] { return wake_threads().size() == 1; }));
    return fd;
  }
  /// Waits for three locks with three waiters of the parker. During the wait, the holder dies.
  void wait_for_three_of_dead_holder(Dict& dict, holdfast_parker* parker) {
    holdfast_lease lease{};
    double sleep = 0;
    for (const char* key : {"a", "b", "c"}) {
      take(key);
      const std::uint32_t waiter = holdfast_waiter_open(parker);
      ASSERT_EQ(dict.wait_lock(key, 0, parker, waiter, &lease, &sleep), HOLDFAST_LOCKED);
    }
    holder.kill();
  }
  void expect_heard_at(int fd, LoopWaiting& waiting) {
    release("k");
    EXPECT_TRUE(readable(fd, kLongMs));
    EXPECT_EQ(waiting.collect(), 1);
  }

  test::ScratchDirectory directory;
  Child holder{hold};
};

}  // namespace holdfast::test
