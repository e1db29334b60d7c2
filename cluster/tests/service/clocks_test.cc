// Clocks that leap, and machines that were suspended: BOOTTIME decides, and goes on while a machine sleeps.
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
constexpr int kShort = 2;  // a lease that is to end (s)
constexpr int kLong = 60;  // and one that is not

TEST(Clocks, a_machine_that_was_suspended_has_lost_its_locks_when_it_goes_on) {
  EtcdServer etcd;
  Machine a(etcd.url(), kShort);
  Machine b(etcd.url(), kLong);
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  const std::uint64_t token = first->lock("k");
  ASSERT_NE(token, 0U);
  first->child().stop();
  a.agent().stop();
  EXPECT_GT(second->lock("k"), token);
  a.clock().boot_ms = a.clock().wall_ms = kHourMs;
  // The agent sleeps on: nobody but the program itself looks at the clock.
  first->child().signal(SIGCONT);
  EXPECT_EQ(first->ask("valid k"), "not owner");
  EXPECT_EQ(first->ask("unlock k"), "not owner");
  a.agent().signal(SIGCONT);
  EXPECT_NE(first->lock("other"), 0U);
  EXPECT_EQ(second->ask("valid k"), "ok");
}

TEST(Clocks, a_suspend_that_nobody_was_stopped_for_ends_the_session_at_once) {
  EtcdServer etcd;
  Machine a(etcd.url(), kLong);
  a.start_agent();
  const auto program = a.program();
  const std::uint64_t token = program->lock("k");
  ASSERT_NE(token, 0U);
  a.clock().boot_ms = a.clock().wall_ms = kHourMs;
  EXPECT_EQ(program->ask("valid k"), "not owner");
  EXPECT_GT(program->lock("k"), token);
}

TEST(Clocks, of_the_wall_may_be_a_day_apart) {
  EtcdServer etcd;
  Machine a(etcd.url(), kLong);
  Machine b(etcd.url(), kLong);
  a.clock().wall_ms = kDayMs;
  b.clock().wall_ms = -kDayMs;
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  std::uint64_t token = 0;
  for (int round = 0; round < 4; ++round) {
    Program& holder = round % 2 == 0 ? *first : *second;
    Program& other = round % 2 == 0 ? *second : *first;
    const std::uint64_t next = holder.lock("k");
    EXPECT_GT(next, token);
    token = next;
    EXPECT_EQ(other.lock("k", 0.2), 0U);
    EXPECT_EQ(holder.ask("unlock k"), "ok");
  }
}

// The leap may mean that this memory is a copy of another machine's, which has the lease, too.
TEST(Clocks, a_wall_clock_that_leaps_ends_the_session_and_leaves_its_lease_to_end_by_itself) {
  for (const std::int64_t leap : {kDayMs, -kDayMs}) {
    EtcdServer etcd;
    Machine a(etcd.url(), kShort);
    Machine b(etcd.url(), kLong);
    a.start_agent();
    b.start_agent();
    const auto first = a.program();
    const auto second = b.program();
    const std::uint64_t token = first->lock("k");
    ASSERT_NE(token, 0U);
    a.clock().wall_ms = leap;
    EXPECT_THAT(first->ask("lose k"), StartsWith("lost "));
    EXPECT_GT(second->lock("k"), token);
    EXPECT_EQ(second->ask("unlock k"), "ok");
    EXPECT_NE(first->lock("k"), 0U);
  }
}

}  // namespace
}  // namespace holdfast::test
