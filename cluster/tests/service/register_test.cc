// Tests registers that a lock across machines guards, while the lock's holders are stopped for longer than the lease. A
// register that checks fencing tokens must not lose an update. A register without checks must lose some updates,
// because otherwise the tests would show nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <random>

#include "etcd/etcd_server.h"
#include "service/machine.h"
#include "service/workers.h"

namespace holdfast::test {
namespace {

using ::testing::IsEmpty;

constexpr int kTtl = 2;

class RegisterTest : public ::testing::Test {
 protected:
  Work new_work() {
    Work work;
    work.seed = std::random_device()();
    std::printf("seed %llu\n", static_cast<unsigned long long>(work.seed));
    return work;
  }

  EtcdServer etcd;
};

TEST_F(RegisterTest, loses_no_update_with_fencing_and_some_without) {
  constexpr int kRounds = 3;
  Machine a(etcd.url(), kTtl);
  Machine b(etcd.url(), kTtl);
  Machine c(etcd.url(), kTtl);
  Machine* const all[] = {&a, &b, &c};
  Workers workers(new_work());
  for (int i = 0; i < 3; ++i) {
    all[i]->start_agent();
    for (int n = 0; n < 2; ++n) workers.start(*all[i], i);
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t stopped = workers.stop_inside();
    Machine& machine = *all[workers.machine_of(stopped)];
    machine.agent().stop();
    // When this machine's lease has ended, the other machines get the lock.
    ASSERT_TRUE(workers.get_on(20));
    machine.agent().signal(SIGCONT);
    ASSERT_TRUE(workers.go_on(stopped));
  }
  workers.end();
  const StoreHistory store = history_of(etcd);
  EXPECT_THAT(workers.errors(store), IsEmpty());
  EXPECT_GE(workers.refused(), std::size_t{kRounds});
  EXPECT_GT(workers.lost_without_fencing(), 0U) << "the stops had no effect, so nothing was shown";
  std::printf("%zu sections, %zu grants, %zu transfers, %zu late writes refused; %zu updates lost without fencing\n",
              workers.sections().size(), store.grants(), store.transfers(), workers.refused(),
              workers.lost_without_fencing());
}

}  // namespace
}  // namespace holdfast::test
