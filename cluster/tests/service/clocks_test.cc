// Tests clocks that leap, and machines that were suspended. Deadlines use BOOTTIME, which continues while a machine
// sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <string>

#include "etcd/etcd_server.h"
#include "service/machine.h"
#include "support/clock.h"

namespace holdfast::test {
namespace {

using ::testing::StartsWith;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kDayMs = 24 * kHourMs;

TEST(Clocks, a_machine_that_was_suspended_has_lost_its_locks_when_it_resumes) {
  EtcdServer etcd;
  Peer a(etcd.url(), kShort);
  Peer b(etcd.url(), kLong);
  const std::uint64_t token = a.hold("k");
  a.program().child().stop();
  a.agent().stop();
  EXPECT_GT(b.lock("k"), token);
  a.clock().boot_ms = a.clock().wall_ms = kHourMs;
  // The agent is still stopped, so only the program itself checks the clock.
  a.program().child().signal(SIGCONT);
  EXPECT_EQ(a.ask("valid k"), "not owner");
  EXPECT_EQ(a.ask("unlock k"), "not owner");
  a.agent().signal(SIGCONT);
  EXPECT_NE(a.lock("other"), 0U);
  EXPECT_EQ(b.ask("valid k"), "ok");
}

TEST(Clocks, a_suspend_that_stopped_no_process_ends_the_session_immediately) {
  EtcdServer etcd;
  Peer a(etcd.url(), kLong);
  const std::uint64_t token = a.hold("k");
  a.clock().boot_ms = a.clock().wall_ms = kHourMs;
  EXPECT_EQ(a.ask("valid k"), "not owner");
  EXPECT_GT(a.lock("k"), token);
}

TEST(Clocks, wall_clocks_may_differ_by_a_day) {
  EtcdServer etcd;
  Peer a(etcd.url(), kLong);
  Peer b(etcd.url(), kLong);
  a.clock().wall_ms = kDayMs;
  b.clock().wall_ms = -kDayMs;
  std::uint64_t token = 0;
  for (int round = 0; round < 4; ++round) {
    Peer& holder = round % 2 == 0 ? a : b;
    Peer& other = round % 2 == 0 ? b : a;
    const std::uint64_t next = holder.lock("k");
    EXPECT_GT(next, token);
    token = next;
    EXPECT_EQ(other.lock("k", 0.2), 0U);
    EXPECT_EQ(holder.ask("unlock k"), "ok");
  }
}

// A leap may mean that this machine is a copy of another machine, which has the same lease.
TEST(Clocks, a_leaping_wall_clock_ends_the_session_and_lets_its_lease_expire) {
  for (const std::int64_t leap : {kDayMs, -kDayMs}) {
    EtcdServer etcd;
    Peer a(etcd.url(), kShort);
    Peer b(etcd.url(), kLong);
    const std::uint64_t token = a.hold("k");
    a.clock().wall_ms = leap;
    EXPECT_THAT(a.ask("lose k"), StartsWith("lost "));
    EXPECT_GT(b.lock("k"), token);
    EXPECT_EQ(b.ask("unlock k"), "ok");
    EXPECT_NE(a.lock("k"), 0U);
  }
}

}  // namespace
}  // namespace holdfast::test
