// Tests how a holder learns about waiting machines (agent/queue.h) from notes and polls that arrive in any order.
#include "agent/queue.h"

#include <gtest/gtest.h>

namespace holdfast::test {
namespace {

using agent::Queue;
using agent::Waiter;

TEST(QueueTest, a_note_survives_a_poll_that_it_has_overtaken) {
  Queue queue(5);
  queue.learn({}, 10);
  queue.note({12, 7});
  queue.learn({}, 11);
  ASSERT_FALSE(queue.empty());
  EXPECT_FALSE(queue.unknown());
  EXPECT_EQ(queue.first(), (Waiter{12, 7}));
}

TEST(QueueTest, a_poll_after_a_note_shows_all_waiters) {
  Queue queue(5);
  queue.note({12, 7});
  queue.learn({{14, 8}}, 15);
  EXPECT_EQ(queue.first(), (Waiter{14, 8}));
  queue.learn({}, 16);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.unknown());
}

TEST(QueueTest, a_poll_shows_all_waiters_when_nothing_is_known) {
  Queue queue(5);
  queue.note({12, 7});
  queue.forget({12, 7});
  EXPECT_TRUE(queue.unknown());
  queue.learn({}, 11);
  EXPECT_FALSE(queue.unknown());
}

}  // namespace
}  // namespace holdfast::test
