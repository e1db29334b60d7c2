// holdfast_lock and holdfast_acquire in the dictionary of a cluster: the tests are the agent.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gate/cluster_lock.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 60;
constexpr double kShort = 0.05;

class BlockingInClusterTest : public DictTest {
 protected:
  BlockingInClusterTest() : DictTest({.cluster = "main"}) {}

  void begin_session() {
    const Session session = Session(dict.segment());
    ASSERT_TRUE(session.begin(session.now(), 1, 100, boottime_ms() + 600'000));
  }
  void attend() {
    const Session session = Session(dict.segment());
    ASSERT_TRUE(session.attend(session.agent(), (**World::current()).token(), 1));
  }
  /// A call that does not wait, which the agent answers.
  int try_beside(const std::function<Code()>& agent) {
    std::atomic<int> code{-1};
    std::thread thread([&] { code = lock(0); });
    EXPECT_TRUE(eventually([&] { return code != -1 || is_tried_for(); }));
    EXPECT_EQ(agent(), Code::ok);
    thread.join();
    return code;
  }
  int lock(double timeout) { return holdfast_lock(dict.handle, "k", 1, timeout, 0, &lease); }
  bool is_wanted() { return wanted_keys(dict.dictionary(), {}) == std::vector<std::string>{"k"}; }
  bool is_tried_for() {
    LockState state;
    return state_of_lock(dict.dictionary(), "k", state) == Code::ok && state.tried_for;
  }

  holdfast_lease lease{};
};

TEST_F(BlockingInClusterTest, a_wait_lasts_until_the_agent_has_got_the_lock) {
  begin_session();
  std::atomic<int> code{-1};
  std::thread thread([&] { code = lock(INFINITY); });
  EXPECT_TRUE(eventually([&] { return is_wanted(); }));
  ASSERT_EQ(stand(dict.dictionary(), "k", 1, 7), Code::ok);
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
}

TEST_F(BlockingInClusterTest, a_wait_in_vain_says_that_the_store_is_out_of_reach_and_why) {
  begin_session();
  EXPECT_EQ(lock(kShort), HOLDFAST_UNAVAILABLE);
  EXPECT_NE(std::string(holdfast_error()).find("no agent of the cluster \"main\""), std::string::npos)
      << holdfast_error();
  EXPECT_FALSE(is_wanted()) << "it has left the queue";
}

TEST_F(BlockingInClusterTest, a_wait_for_what_another_machine_keeps_is_locked) {
  begin_session();
  attend();
  EXPECT_EQ(lock(kShort), HOLDFAST_LOCKED);
}

TEST_F(BlockingInClusterTest, a_wait_for_what_a_process_of_this_machine_holds_is_locked_whatever_the_store_is_like) {
  begin_session();
  ASSERT_EQ(stand(dict.dictionary(), "k", 1, 7), Code::ok);
  holdfast_lease held{};
  ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
  EXPECT_EQ(lock(kShort), HOLDFAST_LOCKED);
  EXPECT_EQ(lock(0), HOLDFAST_LOCKED);
}

TEST_F(BlockingInClusterTest, a_call_that_does_not_wait_asks_the_store_and_is_told_that_another_machine_has_the_lock) {
  begin_session();
  attend();
  EXPECT_EQ(try_beside([&] { return refuse(dict.dictionary(), "k", Code::elsewhere); }), HOLDFAST_ELSEWHERE);
}

TEST_F(BlockingInClusterTest, a_call_that_does_not_wait_gets_what_the_agent_gets_for_it) {
  begin_session();
  attend();
  EXPECT_EQ(try_beside([&] { return stand(dict.dictionary(), "k", 1, 7); }), HOLDFAST_OK);
}

TEST_F(BlockingInClusterTest, a_store_that_does_not_answer_is_unavailable) {
  begin_session();
  attend();
  const double start = now();
  EXPECT_EQ(lock(0), HOLDFAST_UNAVAILABLE);
  EXPECT_GE(now() - start, 1);
  EXPECT_STREQ(holdfast_error(), "the agent of the cluster \"main\" has no answer from its store");
}

TEST_F(BlockingInClusterTest, without_a_session_a_call_that_does_not_wait_asks_nobody) {
  EXPECT_EQ(lock(0), HOLDFAST_UNAVAILABLE);
  EXPECT_FALSE(is_tried_for());
}

TEST_F(BlockingInClusterTest, there_are_no_permits) {
  const holdfast_request read = HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .timeout = kLong, .want = 1);
  EXPECT_EQ(holdfast_acquire(dict.handle, "k", 1, &read, &lease), HOLDFAST_UNSUPPORTED);
}

}  // namespace
}  // namespace holdfast::test
