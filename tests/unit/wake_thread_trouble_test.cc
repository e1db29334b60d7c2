// Tests the wake thread of event loops when the process exits or forks, when the host has closed descriptors, and when
// no more descriptors or threads can be created.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "support/event_loop.h"
#include "support/refused_call.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using Waiting = LoopWaiting;

TEST_F(WakeThreadTest, an_exit_while_the_thread_works_is_a_normal_exit) {
  Child busy(hold);
  busy.hear();
  busy.say(":k");
  for (int round = 0; round < 30; ++round) {
    Child child([round](Channel&) -> int {
      Dict dict("wake");
      auto waiting = std::make_unique<Waiting>().release();  // never freed, so that the thread finds it
      waiting->fd();
      waiting->timer(0.001);
      for (int i = 0; i <= round; ++i)
        if (waiting->once(dict, "k") == HOLDFAST_OK) waiting->unlock(dict, "k");
      std::exit(7);
    });
    ASSERT_EQ(child.wait(), 7) << round;
  }
}

TEST_F(WakeThreadTest, an_exit_handler_that_waits_gets_an_error_without_a_thread) {
  Child child([](Channel&) -> int {
    static auto waiting = std::make_unique<Waiting>();
    static int result = -2;
    std::atexit([] {
      result = waiting->fd();
      ::_exit(result == -1 && std::string(holdfast_error()).find("exits") != std::string::npos ? 0 : 1);
    });
    Dict dict("wake");
    holdfast_lease lease{};
    dict.try_lock("own", 0, &lease);
    waiting->fd();
    waiting->once(dict, "own");
    std::exit(2);
  });
  EXPECT_EQ(child.wait(), 0);
}

// --- fork ---

TEST_F(WakeThreadTest, a_forked_child_has_no_thread_and_makes_its_own_descriptor) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    take("k");
    const int fd = waiting.fd();
    platform::FileId parents;
    ASSERT_EQ(platform::file_id(fd, parents), 0);
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    ASSERT_TRUE(eventually([] { return wake_threads().size() == 1; }));
    const std::unique_ptr<holdfast_parker, CloseParker> without_waiters(holdfast_parker_new());
    ASSERT_GE(holdfast_parker_fd(without_waiters.get()), 0);
    const std::size_t before = descriptors();
    Started child("waits", [&](Channel& parent) {
      EXPECT_EQ(wake_threads().size(), 0U);
      EXPECT_EQ(descriptors(), before + 2 - 4)
          << "the child must close the parent's pairs; it has two new descriptors for its channel";
      Waiting own;
      const int own_fd = own.fd();
      platform::FileId mine;
      EXPECT_EQ(platform::file_id(own_fd, mine), 0);
      EXPECT_FALSE(mine == parents);
      EXPECT_EQ(own.once(dict, "k"), HOLDFAST_LOCKED);
      EXPECT_TRUE(eventually([] { return wake_threads().size() == 1; }));
      parent.say("waits");
      EXPECT_EQ(own.lock(dict, "k"), HOLDFAST_OK);
      EXPECT_EQ(own.unlock(dict, "k"), HOLDFAST_OK);
      return HasFailure() ? 1 : 0;
    });
    EXPECT_FALSE(readable(fd, 20));
    release("k");
    EXPECT_EQ(waiting.lock(dict, "k"), HOLDFAST_OK);
    EXPECT_EQ(waiting.unlock(dict, "k"), HOLDFAST_OK);
    EXPECT_EQ(child.wait(), 0);
  });
}

TEST_F(WakeThreadTest, children_forked_while_the_thread_works_can_wait) {
  constexpr int kForks = 60;
  in_process([] {
    Dict dict("wake");
    Child busy(hold);
    busy.hear();
    busy.say(":k");
    Waiting waiting;
    for (int round = 0; round < kForks; ++round) {
      ASSERT_GE(waiting.fd(), 0);
      if (waiting.once(dict, "k") == HOLDFAST_OK) waiting.unlock(dict, "k");
      waiting.timer(0.0002);
      sleep_ms(round % 2);
      Child child([&](Channel&) {
        Waiting own;
        if (own.timer(0.001) != HOLDFAST_OK) return 1;
        return readable(own.fd(), kLongMs) ? 0 : 2;
      });
      ASSERT_EQ(child.wait(), 0) << round;
    }
  });
}

// --- failures ---

TEST_F(WakeThreadTest, a_descriptor_that_the_host_closed_is_replaced_and_the_hosts_own_are_not_touched) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const int fd = wait_with_thread(dict, waiting);
    const std::size_t count = descriptors();
    // From now on, the numbers of all our descriptors belong to socket pairs of the host.
    for (int number = fd; number < fd + 2; ++number) ASSERT_EQ(::close(number), 0);
    int strangers[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, strangers), 0);
    ASSERT_EQ(std::min(strangers[0], strangers[1]), fd);
    release("k");
    sleep_ms(100);
    char byte = 0;
    for (const int stranger : strangers)
      EXPECT_EQ(::recv(stranger, &byte, 1, 0), -1) << "a byte was sent to the host's socket";
    ASSERT_EQ(::send(strangers[0], "x", 1, 0), 1);

    const int fresh = waiting.fd();
    ASSERT_GE(fresh, 0) << holdfast_error();
    EXPECT_NE(fresh, fd);
    EXPECT_TRUE(readable(fresh, kLongMs)) << "the earlier wake-up was lost";
    EXPECT_EQ(waiting.collect(), 1);
    waiting.free();
    EXPECT_EQ(::recv(strangers[1], &byte, 1, 0), 1) << "the library read from the host's socket or closed it";
    EXPECT_EQ(descriptors(), count);
  });
}

TEST_F(WakeThreadTest, without_descriptors_the_host_gets_an_error_and_polls_and_the_next_call_tries_again) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    take("k");
    {
      const NoDescriptors none;
      EXPECT_EQ(waiting.fd(), -1);
      EXPECT_STREQ(holdfast_error(), "cannot create a descriptor for wake-ups: Too many open files");
      EXPECT_EQ(waiting.timer(1), HOLDFAST_SYSTEM);
    }
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_GE(waiting.fd(), 0) << holdfast_error();
  });
}

TEST_F(WakeThreadTest, without_threads_the_host_gets_an_error_and_polls_and_the_next_call_tries_again) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_GT(waiting.sleep_time(), 0.1);
    {
      const NoThreads none;
      ASSERT_TRUE(none.is_refused());
      EXPECT_EQ(waiting.fd(), -1);
      EXPECT_STREQ(holdfast_error(), "cannot start the wake thread: Resource temporarily unavailable");
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
      EXPECT_LE(waiting.sleep_time(), 0.01) << "the waiter has a descriptor, but no thread listens";
      release("k");
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
      ASSERT_EQ(waiting.unlock(dict, "k"), HOLDFAST_OK);
    }
    EXPECT_GE(waiting.fd(), 0) << holdfast_error();
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    EXPECT_GT(waiting.sleep_time(), 0.1);
  });
}

TEST_F(WakeThreadTest, a_parker_can_be_freed_after_the_host_closed_all_descriptors) {
  in_process([] {
    Waiting waiting;
    const int fd = waiting.fd();
    for (int number = fd; number < fd + 2; ++number) ::close(number);
    int mine[2];
    ASSERT_EQ(::pipe(mine), 0);
    waiting.free();
    for (const int number : mine) EXPECT_EQ(::fcntl(number, F_GETFD), 0) << "the host's descriptor was closed";
  });
}

}  // namespace
}  // namespace holdfast::test
