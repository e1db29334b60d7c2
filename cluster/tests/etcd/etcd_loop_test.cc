// Tests the agent's event loop.
#include "etcd/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace holdfast::etcd {
namespace {

using ::testing::ElementsAre;

class LoopTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(pipe_), 0); }
  void TearDown() override {
    for (const int fd : pipe_) ::close(fd);
  }
  void run_until(std::size_t actions) {
    const std::int64_t end = boottime_ms() + 60000;
    while (order_.size() < actions && boottime_ms() < end) loop_.turn(1000);
  }
  Loop::Action note(int number) {
    return [this, number] { order_.push_back(number); };
  }

  Loop loop_;
  int pipe_[2] = {-1, -1};
  std::vector<int> order_;
};

TEST_F(LoopTest, runs_timers_in_the_order_of_their_deadlines) {
  const std::int64_t start = boottime_ms();
  loop_.at(start + 20, note(2));
  loop_.at(start + 10, note(1));
  const auto canceled = loop_.at(start + 15, note(9));
  loop_.at(start + 30, note(3));
  loop_.cancel(canceled);
  run_until(3);
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
  EXPECT_GE(boottime_ms(), start + 30);
}

TEST_F(LoopTest, lets_a_timer_cancel_another_due_timer) {
  const std::int64_t past = boottime_ms() - 5;
  Loop::TimerId second = 0;
  loop_.at(past, [&] {
    order_.push_back(1);
    loop_.cancel(second);
  });
  second = loop_.at(past + 1, note(9));
  loop_.at(past + 2, note(2));
  run_until(2);
  loop_.turn(0);
  EXPECT_THAT(order_, ElementsAre(1, 2));
}

TEST_F(LoopTest, runs_other_events_even_if_a_timer_always_sets_another_due_timer) {
  std::function<void()> again = [&] {
    order_.push_back(1);
    loop_.after(0, again);
  };
  loop_.after(0, again);
  loop_.turn(0);
  EXPECT_LE(order_.size(), 1u);
  run_until(3);
}

TEST_F(LoopTest, reports_the_end_of_a_pipe) {
  std::uint32_t seen = 0;
  loop_.watch(pipe_[0], EPOLLIN, [&](std::uint32_t events) {
    seen = events;
    order_.push_back(1);
    loop_.unwatch(pipe_[0]);
  });
  ::close(pipe_[1]);
  pipe_[1] = ::dup(pipe_[0]);
  run_until(1);
  EXPECT_NE(seen & EPOLLHUP, 0u);
  loop_.turn(0);
  EXPECT_THAT(order_, ElementsAre(1)) << "the callback must have ended its own watch";
}

TEST_F(LoopTest, runs_posted_calls_later_but_soon) {
  loop_.post([&] {
    order_.push_back(1);
    loop_.post(note(2));
  });
  EXPECT_TRUE(order_.empty());
  run_until(2);
  EXPECT_THAT(order_, ElementsAre(1, 2));
}

TEST_F(LoopTest, runs_until_it_is_stopped) {
  loop_.after(1, [&] { loop_.stop(); });
  loop_.run();
}

}  // namespace
}  // namespace holdfast::etcd
