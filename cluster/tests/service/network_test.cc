// Tests bad networks between agents and their store, which cut off machines, and deliver answers late, twice or never.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>

#include "etcd/etcd_server.h"
#include "etcd/proxy.h"
#include "service/machine.h"
#include "service/workers.h"
#include "support/clock.h"

namespace holdfast::test {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Returns the number at the end, which is a time of CLOCK_BOOTTIME in nanoseconds.
std::int64_t time_of(const std::string& said) { return std::stoll(said.substr(said.rfind(' '))); }

TEST(Network, a_holder_that_is_cut_off_loses_the_lock_before_another_gets_it) {
  EtcdServer etcd;
  Proxy proxy(etcd.port());
  Peer a(proxy.url(), kShort);
  Peer b(etcd.url(), kShort);
  const std::uint64_t token = a.hold("k");
  proxy.hold();
  a.say("lose k");
  b.say("lock k 50");
  const std::string lost = a.hear();
  const std::string got = b.hear();
  ASSERT_THAT(lost, StartsWith("lost "));
  ASSERT_THAT(got, StartsWith("ok "));
  EXPECT_LT(time_of(lost), time_of(got));
  proxy.pass();
  EXPECT_EQ(b.ask("valid k"), "ok");
  EXPECT_EQ(b.ask("unlock k"), "ok");
  EXPECT_GT(a.lock("k"), token);
}

TEST(Network, a_waiter_that_is_cut_off_delays_others_for_its_lease_and_continues_to_wait) {
  EtcdServer etcd;
  Proxy proxy(etcd.port());
  Peer holder(etcd.url(), kLong);
  Peer cut_off(proxy.url(), kShort);
  Peer third(etcd.url(), kLong);
  holder.hold("k");
  cut_off.say("lock k 60");
  ASSERT_TRUE(is_queued(etcd, "k", 1));
  third.say("lock k 60");
  ASSERT_TRUE(is_queued(etcd, "k", 2));
  proxy.hold();
  EXPECT_EQ(holder.ask("unlock k"), "ok");
  EXPECT_THAT(third.hear(), StartsWith("ok "));
  proxy.pass();
  EXPECT_EQ(third.ask("valid k"), "ok");
  EXPECT_EQ(third.ask("unlock k"), "ok");
  EXPECT_THAT(cut_off.hear(), StartsWith("ok "));
}

/// The faults of requests and answers while workers on two machines run.
struct Weather {
  const char* name;
  void (*bring)(Proxy&);
  int rounds;
  int ms;  // duration of each fault
};

const Weather kWeathers[] = {
    {"all_connections_are_cut_again_and_again", [](Proxy& proxy) { proxy.reset(); }, 30, 50},
    {"no_connection_is_taken_for_a_while", [](Proxy& proxy) { proxy.cut(); }, 3, 400},
    {"answers_are_late", [](Proxy& proxy) { proxy.delay(200); }, 1, 2500},
    {"answers_are_later_than_anybody_waits_for", [](Proxy& proxy) { proxy.delay(700); }, 1, 3000},
    {"each_request_is_done_twice", [](Proxy& proxy) { proxy.repeat(); }, 1, 2000},
    {"what_is_asked_is_done_and_never_answered", [](Proxy& proxy) { proxy.hold_answers(); }, 2, 1500},
    {"transactions_take_long", [](Proxy& proxy) { proxy.slow_down_transactions(900); }, 1, 3000},
};

class BadNetwork : public ::testing::TestWithParam<Weather> {};

TEST_P(BadNetwork, costs_time_but_never_grants_a_lock_twice_or_out_of_order) {
  EtcdServer etcd;
  Proxy proxies[] = {Proxy(etcd.port()), Proxy(etcd.port())};
  Machine machines[] = {Machine(proxies[0].url(), kLong), Machine(proxies[1].url(), kLong)};
  Work work;
  work.seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(work.seed));
  work.keys = 2;
  Workers workers(work);
  for (int i = 0; i < 2; ++i) {
    machines[i].start_agent();
    for (int n = 0; n < 2; ++n) workers.start(machines[i], i);
  }
  ASSERT_TRUE(workers.get_on(20, 0) && workers.get_on(20, 1));
  for (int round = 0; round < GetParam().rounds; ++round) {
    for (Proxy& proxy : proxies) GetParam().bring(proxy);
    sleep_ms(GetParam().ms);
    for (Proxy& proxy : proxies) proxy.pass();
    if (GetParam().ms > 100) {
      ASSERT_TRUE(workers.get_on(5, 0) && workers.get_on(5, 1));
    }
  }
  ASSERT_TRUE(workers.get_on(20, 0) && workers.get_on(20, 1));
  workers.end();
  const StoreHistory store = history_of(etcd);
  EXPECT_THAT(workers.errors(store), IsEmpty());
  std::printf("%zu sections, %zu grants, %zu transfers\n", workers.sections().size(), store.grants(),
              store.transfers());
}

std::string name_of(const ::testing::TestParamInfo<Weather>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(where, BadNetwork, ::testing::ValuesIn(kWeathers), name_of);

}  // namespace
}  // namespace holdfast::test
