// Tests how deaths, stops and partitions of three etcd members affect the machines' locks. The leases are long, so that
// locks survive even on slow machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "etcd/etcd_server.h"
#include "service/machine.h"

namespace holdfast::test {
namespace {

using ::testing::StartsWith;

constexpr int kLease = 60;

/// A machine with a proxy in front of each member. Only the machine's agent uses the proxies.
struct Reached {
  explicit Reached(EtcdCluster& cluster) : proxies(cluster), peer(joined(proxies.urls()), kLease) {}

  MemberProxies proxies;
  Peer peer;
};

/// One machine holds a lock, and a second machine waits for it.
class Quorum : public ::testing::Test {
 protected:
  void SetUp() override {
    holder.peer.hold("k");
    waiter.peer.say("lock k 60");
    ASSERT_TRUE(is_queued(cluster[0], "k"));
    leader = cluster.leader();
  }

  /// Checks that the holder still has the lock, that the waiter gets it, and that both can continue.
  void expect_nothing_lost() {
    EXPECT_EQ(holder.peer.ask("valid k"), "ok");
    EXPECT_EQ(holder.peer.ask("unlock k"), "ok");
    EXPECT_THAT(waiter.peer.hear(), StartsWith("ok "));
    EXPECT_EQ(waiter.peer.ask("unlock k"), "ok");
    EXPECT_NE(holder.peer.lock("k", 60), 0U);
    EXPECT_NE(waiter.peer.lock("other", 60), 0U);
  }

  EtcdCluster cluster;
  Reached holder{cluster};
  Reached waiter{cluster};
  std::size_t leader = 0;
};

TEST_F(Quorum, a_leader_that_is_killed_costs_no_lock) {
  cluster[leader].kill();
  expect_nothing_lost();
}

TEST_F(Quorum, a_leader_that_is_stopped_and_resumes_costs_no_lock) {
  cluster[leader].stop();
  expect_nothing_lost();
  cluster[leader].go_on();
  EXPECT_EQ(waiter.peer.ask("valid other"), "ok");
  EXPECT_EQ(holder.peer.ask("valid k"), "ok");
  EXPECT_EQ(holder.peer.ask("unlock k"), "ok");
  EXPECT_NE(waiter.peer.lock("k", 60), 0U);
}

TEST_F(Quorum, a_leader_that_the_other_members_cannot_reach_costs_no_lock) {
  cluster.isolate(leader);
  expect_nothing_lost();
  cluster.rejoin();
  EXPECT_EQ(holder.peer.ask("unlock k"), "ok");
  EXPECT_NE(waiter.peer.lock("k", 60), 0U);
}

TEST_F(Quorum, a_leader_that_the_holder_cannot_reach_costs_no_lock) {
  holder.proxies[leader].hold();
  expect_nothing_lost();
}

TEST_F(Quorum, a_leader_that_the_waiter_cannot_reach_costs_no_lock) {
  waiter.proxies[leader].hold();
  expect_nothing_lost();
}

TEST_F(Quorum, a_restart_of_all_members_costs_no_lock) {
  for (std::size_t i = 0; i < 3; ++i) cluster[i].kill();
  for (std::size_t i = 0; i < 3; ++i) cluster[i].begin();
  for (std::size_t i = 0; i < 3; ++i) cluster[i].await_service();
  expect_nothing_lost();
}

TEST_F(Quorum, without_a_majority_nobody_gets_a_lock_and_with_a_majority_all_continue) {
  for (std::size_t i = 0; i < 3; ++i)
    if (i != leader) cluster[i].stop();
  EXPECT_EQ(holder.peer.lock("other", 2), 0U);
  EXPECT_EQ(holder.peer.ask("valid k"), "ok");
  for (std::size_t i = 0; i < 3; ++i)
    if (i != leader) cluster[i].go_on();
  expect_nothing_lost();
}

}  // namespace
}  // namespace holdfast::test
