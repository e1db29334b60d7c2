// Tests extreme cases: long keys, many locks, locks that are held for a long time, and the traces of machines that are
// gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "etcd/etcd_server.h"
#include "service/machine.h"
#include "support/clock.h"

namespace holdfast::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Bounds, ten_thousand_locks_of_one_machine_survive_its_agent) {
  constexpr int kLocks = 10'000;
  EtcdServer etcd;
  Peer a(etcd.url(), 120);
  const std::string count = std::to_string(kLocks);
  constexpr int kAtOnce = 1000;  // a program can take so many within its time limit, even on a busy machine
  for (int from = 0; from < kLocks; from += kAtOnce) {
    const std::string taken = a.ask("take " + std::to_string(kAtOnce) + " " + std::to_string(from));
    ASSERT_EQ(taken, std::to_string(kAtOnce));
  }
  EXPECT_EQ(etcd.count(std::string(kSpace) + "/l/"), static_cast<std::size_t>(kLocks));
  a.restart_agent();
  EXPECT_TRUE(eventually([&] { return a.ask("verify 0").starts_with("code=yes"); })) << a.said();
  EXPECT_EQ(a.ask("keep " + count), count);
  Peer b(etcd.url(), 120);
  EXPECT_EQ(b.lock("9999", 0.5), 0U);
  EXPECT_EQ(a.ask("unlock 9999"), "ok");
  EXPECT_NE(b.lock("9999"), 0U);
}

TEST(Bounds, a_key_that_the_store_cannot_store_is_refused_by_name) {
  EtcdServer etcd;
  Peer a(etcd.url());
  a.hold("k");
  const std::string key(10'240, 'k');
  EXPECT_EQ(a.lock(key, 0.5), 0U);
  EXPECT_THAT(a.ask("verify " + key), AllOf(StartsWith("code=unsupported"), HasSubstr("expected at most 1024")));
  EXPECT_NE(a.lock(std::string(900, 'k')), 0U);
}

TEST(Bounds, a_lock_that_is_held_for_several_leases_stays_with_its_holder) {
  constexpr int kTtl = 3;
  EtcdServer etcd;
  Peer a(etcd.url(), kTtl);
  Peer b(etcd.url(), kTtl);
  a.hold("k");
  EXPECT_EQ(b.lock("k", 2.5 * kTtl), 0U);
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_EQ(a.ask("unlock k"), "ok");
  EXPECT_NE(b.lock("k"), 0U);
}

TEST(Bounds, locks_released_during_an_absence_of_the_store_are_returned_afterwards) {
  EtcdServer etcd;
  Peer a(etcd.url(), 600);
  Peer b(etcd.url(), 600);
  a.hold("k");
  etcd.kill();
  EXPECT_EQ(a.ask("unlock k"), "ok");
  b.say("lock k 55");
  etcd.start();
  EXPECT_THAT(b.hear(), StartsWith("ok "));
}

TEST(Bounds, the_store_keeps_nothing_of_machines_that_are_gone) {
  EtcdServer etcd;
  {
    Peer a(etcd.url(), 2);
    Peer b(etcd.url(), 2);
    a.hold("k");
    b.say("lock k 60");
    ASSERT_TRUE(is_queued(etcd, "k"));
    EXPECT_EQ(etcd.count(std::string(kSpace) + "/b/"), 2U);
    a.agent().kill_and_wait();
    b.agent().kill_and_wait();
  }
  EXPECT_TRUE(eventually([&] { return etcd.count(kSpace) == 0; }));
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

TEST(Bounds, two_worlds_of_one_machine_count_as_two_machines_and_name_the_holder) {
  EtcdServer etcd;
  Peer a(etcd.url());
  Peer b(etcd.url());
  a.hold("k");
  EXPECT_EQ(b.lock("k", 0.3), 0U);
  std::string program;
  std::getline(std::ifstream("/proc/self/comm"), program);
  const auto holder_of_first = [&](Peer& asked) {
    return ::testing::Value(
        asked.ask("holder k"),
        AllOf(StartsWith("code=yes"), HasSubstr("host=" + host_name()), HasSubstr("when="),
              HasSubstr("program=" + program), HasSubstr("pid=" + std::to_string(a.program().child().pid()))));
  };
  EXPECT_TRUE(holder_of_first(b)) << b.ask("holder k");
  EXPECT_TRUE(holder_of_first(a)) << a.ask("holder k");
  EXPECT_EQ(a.ask("unlock k"), "ok");
  b.hold("k");
  EXPECT_FALSE(holder_of_first(a));
}

}  // namespace
}  // namespace holdfast::test
