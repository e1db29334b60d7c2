// What ends a grant of permits, and what a repair leaves of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "dict/repair.h"
#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// --- what ends a grant ---

TEST_IN_TIME(PermitsTest, permits_of_a_dead_process_come_back) {
  Resident child([&] { acquired(2); });
  holdfast_lease mine = acquired(1);
  holdfast_lease lease{};
  EXPECT_EQ(acquire(1, &lease), HOLDFAST_LOCKED);
  child.kill_and_wait();
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_EQ(acquire(2, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 3);
  EXPECT_EQ(post(mine), HOLDFAST_OK) << "those of others are left alone";
}

TEST_IN_TIME(PermitsTest, more_dead_processes_than_are_asked_for_at_once_do_not_hold_it_up) {
  std::vector<std::unique_ptr<Resident>> children;
  for (int i = 0; i < 100; ++i) {
    children.push_back(std::make_unique<Resident>([&] {
      holdfast_lease lease{};
      EXPECT_EQ(read(&lease), HOLDFAST_OK);
    }));
  }
  EXPECT_EQ(dict.used("key"), 100);
  for (const auto& child : children) {
    child->kill_and_wait();
  }
  Writer writer(dict);
  EXPECT_TRUE(writer.get());
  EXPECT_EQ(count_shard(shard()).holders, 1U);
}

TEST_IN_TIME(PermitsTest, a_forked_child_neither_holds_nor_gives_back_its_parents_permits) {
  holdfast_lease lease{};
  ASSERT_EQ(write(&lease), HOLDFAST_OK);
  Child child([&](Channel&) {
    holdfast_lease copy = lease;
    holdfast_lease other{};
    if (dict.remaining("key", copy) != -1) return 1;
    if (dict.renew("key", copy, 10) != HOLDFAST_NOT_OWNER) return 2;
    if (dict.keep("key", copy, 1) != HOLDFAST_NOT_OWNER) return 3;
    if (dict.unlock("key", &copy) != HOLDFAST_NOT_OWNER) return 4;
    return dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &other) == HOLDFAST_LOCKED ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(post(lease), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, expiry_lets_the_next_waiter_in) {
  holdfast_lease lease{};
  ASSERT_EQ(write(&lease, 0.05), HOLDFAST_OK);
  Reader reader(dict);
  ASSERT_EQ(reader.wait(), HOLDFAST_LOCKED);
  EXPECT_LE(reader.sleep_time(), 0.06);
  EXPECT_TRUE(reader.get());
}

TEST_IN_TIME(PermitsTest, flush_delete_set_and_expire_end_all_grants) {
  const auto expect_ended = [&](const char* how, const std::vector<holdfast_lease>& leases) {
    const int lost = dict.get("key").code == HOLDFAST_OK ? HOLDFAST_NOT_OWNER : HOLDFAST_NOT_FOUND;
    for (holdfast_lease lease : leases) EXPECT_EQ(dict.remaining("key", lease), -1) << how;
    for (holdfast_lease lease : leases) EXPECT_EQ(dict.renew("key", lease, 10), lost) << how;
    dict.remove("key");
    EXPECT_EQ(count_shard(shard()).holders, 0U) << how;
    EXPECT_EQ(check_shard(shard()), "") << how;
  };
  std::vector<holdfast_lease> leases{acquired(), acquired(1, 50)};
  EXPECT_EQ(dict.flush_all(), HOLDFAST_OK);
  EXPECT_EQ(dict.get("key"), nothing());
  holdfast_lease fresh = acquired(3);
  EXPECT_EQ(post(leases[0]), HOLDFAST_NOT_OWNER);
  leases.erase(leases.begin());
  EXPECT_EQ(dict.used("key"), 3);
  EXPECT_EQ(post(fresh), HOLDFAST_OK);
  expect_ended("flush", leases);
  leases = {acquired(), acquired()};
  EXPECT_EQ(dict.remove("key"), HOLDFAST_OK);
  expect_ended("delete", leases);
  leases = {acquired(), acquired()};
  EXPECT_EQ(dict.set("key", "value"), HOLDFAST_OK);
  EXPECT_EQ(dict.get("key"), text("value"));
  expect_ended("set", leases);
  leases = {acquired(1, 100), acquired()};
  EXPECT_EQ(dict.expire("key", 0.001), HOLDFAST_OK);
  sleep_ms(10);
  expect_ended("expire", leases);
  leases = {acquired(1, 0.001), acquired(1, 0.001)};
  sleep_ms(10);
  EXPECT_EQ(dict.flush_expired(), 0) << "free permits do not count as entries";
  EXPECT_EQ(count_shard(shard()).holders, 0U);
}

TEST_IN_TIME(PermitsTest, waiters_are_woken_when_all_grants_are_ended) {
  holdfast_lease lease{};
  const auto end_it = [&](int how) {
    if (how == 0) return dict.remove("key");
    if (how == 1) return dict.set("key", "v") == HOLDFAST_OK ? dict.remove("key") : -1;
    return dict.flush_all();
  };
  for (int how = 0; how < 3; ++how) {
    SCOPED_TRACE(how);
    ASSERT_EQ(write(&lease), HOLDFAST_OK);
    Writer writer(dict);
    ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
    EXPECT_EQ(end_it(how), HOLDFAST_OK);
    EXPECT_TRUE(writer.is_woken(5));
    EXPECT_EQ(writer.wait(), HOLDFAST_OK);
    EXPECT_EQ(post(writer.lease), HOLDFAST_OK);
  }
}

// --- repair ---

TEST_IN_TIME(PermitsTest, repair_keeps_holders_and_counts_them_anew) {
  holdfast_lease one = acquired(1, 100);
  holdfast_lease two = acquired(2);
  Taker waiter(dict);
  ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  fields().used.store(77);
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(fields().used.load(), 3U);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(dict.waiters("key"), 0) << "the queue is a hint";
  EXPECT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(one), HOLDFAST_OK);
  EXPECT_EQ(waiter.wait(), HOLDFAST_OK);
  EXPECT_EQ(post(two), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, repair_cuts_a_chain_before_the_first_holder_that_makes_no_sense) {
  for (int damage = 0; damage < 6; ++damage) {
    SCOPED_TRACE(damage);
    holdfast_lease leases[3] = {acquired(), acquired(), acquired()};
    holdfast_lease elsewhere{};
    ASSERT_EQ(dict.try_permits("other", HOLDFAST_RWLOCK, 1, 0, 0, &elsewhere), HOLDFAST_OK);
    const std::uint32_t first = fields().holders.load();  // of the last lease
    Entry& second = shard().entry(shard().entry(first).next.load());
    if (damage == 0) shard().entry(first).next.store(shard().granules());
    if (damage == 1) shard().entry(first).next.store(first);
    if (damage == 2) shard().entry(first).next.store(fields("other").holders.load());
    if (damage == 3) second.hash.store(second.hash.load() ^ 1);
    if (damage == 4) second.shape.store(0);
    if (damage == 5) second.value_size.store(sizeof(HolderFields) - 8);
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(dict.used("key"), 1);
    EXPECT_EQ(dict.unlock("key", &leases[1]), HOLDFAST_NOT_OWNER);
    EXPECT_EQ(dict.unlock("key", &leases[2]), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("other", &elsewhere), HOLDFAST_OK) << "others lose nothing";
  }
}

TEST_IN_TIME(PermitsTest, calls_that_meet_damage_repair_and_go_on) {
  const auto damaged = [&] {
    dict.remove("key");
    holdfast_lease lease = acquired();
    acquired();
    shard().entry(fields().holders.load()).next.store(0xFFFFFFFF);
    return lease;  // which is cut off
  };
  holdfast_lease lease = damaged();
  EXPECT_EQ(post(lease), HOLDFAST_NOT_OWNER);
  lease = damaged();
  EXPECT_EQ(dict.renew("key", lease, 5), HOLDFAST_NOT_OWNER);
  lease = damaged();
  EXPECT_EQ(dict.keep("key", lease, 1), HOLDFAST_NOT_OWNER);
  lease = damaged();
  EXPECT_EQ(dict.used("key"), 1);
  lease = damaged();
  EXPECT_EQ(dict.remaining("key", lease), -1);
  lease = damaged();
  EXPECT_EQ(acquire(3, &lease), HOLDFAST_LOCKED);
  damaged();
  EXPECT_EQ(dict.remove("key"), HOLDFAST_OK);
  EXPECT_GT(dict.stats().repairs, 5U);
}

}  // namespace
}  // namespace holdfast::test
