// Tests permits through the C ABI, as semaphores and rwlocks. Covers permits beside other entries and when memory is
// short, the order of grants, what ends a grant, and what a repair preserves. permits_model_test.cc makes random calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dict/repair.h"
#include "lock/handoff.h"
#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// --- semaphores ---

TEST_IN_TIME(PermitsTest, invalid_arguments_are_refused_with_a_message) {
  holdfast_lease lease{};
  const auto attempt = [&](int kind, std::uint32_t want, std::uint32_t total) {
    EXPECT_EQ(dict.try_permits("key", kind, want, total, 0, &lease), HOLDFAST_INVALID);
    return std::string(holdfast_error());
  };
  EXPECT_EQ(attempt(2, 1, 1), "bad kind of permits: expected HOLDFAST_RWLOCK or HOLDFAST_SEMAPHORE");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 1, 0), "bad number of permits: expected 1 to 1073741823, got 0");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 1, kAll), "bad number of permits: expected 1 to 1073741823, got 1073741824");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 0, 3), "bad number of requested permits: expected 1 to 3 (the total), got 0");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 4, 3), "bad number of requested permits: expected 1 to 3 (the total), got 4");
  EXPECT_EQ(attempt(HOLDFAST_RWLOCK, kAll + 1, 0),
            "bad number of requested permits: expected 1 to read, or HOLDFAST_ALL_PERMITS to write, got 1073741825");
  EXPECT_EQ(attempt(HOLDFAST_RWLOCK, 2, 0),
            "bad number of requested permits: expected 1 to read, or HOLDFAST_ALL_PERMITS to write, got 2");
  EXPECT_EQ(dict.try_permits("", HOLDFAST_RWLOCK, 1, 0, 0, &lease), HOLDFAST_INVALID);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, -1, &lease), HOLDFAST_INVALID);
  EXPECT_EQ(dict.keep("key", lease, 1), HOLDFAST_NOT_OWNER);
  lease = acquired();
  EXPECT_EQ(dict.keep("key", lease, 2), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad number of permits to keep: expected 1 to the number in the lease, got 2");
  EXPECT_EQ(post(lease), HOLDFAST_OK);
  holdfast_wait wait{};
  wait.parker = holdfast_parker_new();
  EXPECT_EQ(dict.wait_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &wait, &lease), HOLDFAST_INVALID);
  holdfast_parker_free(wait.parker);
  EXPECT_EQ(dict.used("key"), 0);
}

TEST_IN_TIME(PermitsTest, each_permit_expires_at_its_own_time) {
  holdfast_lease longer = acquired(1, 100);
  holdfast_lease shorter = acquired(2, 0.05);
  holdfast_lease lease{};
  EXPECT_EQ(acquire(1, &lease), HOLDFAST_LOCKED);
  EXPECT_GT(dict.remaining("key", longer), 10);
  EXPECT_GT(dict.remaining("key", shorter), 0);
  sleep_ms(70);
  EXPECT_EQ(dict.remaining("key", shorter), -1);
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_EQ(dict.renew("key", shorter, 10), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(acquire(2, &lease), HOLDFAST_OK);
  EXPECT_EQ(post(shorter), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(count_shard(shard()).holders, 2U);
  EXPECT_EQ(post(longer), HOLDFAST_OK);
}

// --- rwlocks ---

// The word that counts the permits in use is overwritten, but the holders show the true sum.
TEST_IN_TIME(PermitsTest, an_overwritten_count_of_used_permits_admits_nobody) {
  holdfast_lease readers[2]{};
  holdfast_lease writer{};
  holdfast_lease none{};
  const std::uint64_t mended = dict.stats().words_mended;
  ASSERT_EQ(write(&writer), HOLDFAST_OK);
  fields().used.store(0);
  EXPECT_EQ(read(&none), HOLDFAST_LOCKED);
  fields().used.store(1);
  EXPECT_EQ(write(&none), HOLDFAST_LOCKED);
  ASSERT_EQ(post(writer), HOLDFAST_OK);
  for (holdfast_lease& reader : readers) ASSERT_EQ(read(&reader), HOLDFAST_OK);
  fields().used.store(0);
  EXPECT_EQ(write(&none), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.stats().words_mended, mended + 3);
  for (holdfast_lease& reader : readers) EXPECT_EQ(post(reader), HOLDFAST_OK);
}

// --- with other entries ---

TEST_IN_TIME(PermitsTest, permits_share_one_entry_until_the_last_of_them_ends) {
  holdfast_lease first = acquired(1, 50);
  holdfast_lease second = acquired(1, 100);
  EXPECT_EQ(dict.keys(), std::multiset<std::string>{"key"});
  EXPECT_GT(dict.ttl("key"), 60);
  EXPECT_EQ(dict.add("key", "value"), HOLDFAST_EXISTS);
  post(first);
  EXPECT_EQ(dict.stats().entries, 1U);
  post(second);
  EXPECT_EQ(dict.keys().size(), 0U);
  EXPECT_EQ(dict.stats().entries, 0U);
  EXPECT_EQ(dict.add("key", "value"), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, a_key_that_only_dead_processes_hold_reads_as_missing) {
  const auto become_reader = [&] {
    holdfast_lease lease{};
    EXPECT_EQ(read(&lease), HOLDFAST_OK);
  };
  Resident one(become_reader);
  Resident two(become_reader);
  EXPECT_EQ(dict.get("key"), boolean(true));
  two.kill_and_wait();
  EXPECT_EQ(dict.get("key"), boolean(true)) << "one of the holders is alive";
  one.kill_and_wait();
  EXPECT_EQ(dict.get("key"), nothing());
}

TEST_IN_TIME(PermitsTest, a_wait_for_a_key_with_a_value_polls_until_the_value_expires) {
  dict.set("key", "value", 0.05);
  Reader reader(dict);
  EXPECT_EQ(reader.wait(), HOLDFAST_LOCKED);
  EXPECT_LE(reader.sleep_time(), 0.06);
  EXPECT_EQ(dict.get("key"), text("value"));
  EXPECT_TRUE(reader.get());
}

TEST_IN_TIME(PermitsTest, a_dead_process_holds_no_permits_of_any_kind) {
  for (const bool is_lock : {true, false}) {
    holdfast_lease lease{};
    Resident child([&] { EXPECT_EQ(is_lock ? dict.try_lock("key", 0, &lease) : read(&lease), HOLDFAST_OK); });
    child.kill_and_wait();
    EXPECT_EQ(acquire(1, &lease), HOLDFAST_OK);
    dict.remove("key");
  }
}

// --- memory ---

TEST_IN_TIME(PermitsTest, without_memory_nothing_changes) {
  std::vector<holdfast_lease> leases;
  holdfast_lease lease{};
  int code = HOLDFAST_OK;
  while ((code = read(&lease)) == HOLDFAST_OK) leases.push_back(lease);
  EXPECT_EQ(code, HOLDFAST_NO_MEMORY);
  EXPECT_EQ(lease.owner, 0U);
  EXPECT_GT(leases.size(), 100U);
  EXPECT_EQ(dict.used("key"), static_cast<int>(leases.size()));
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(post(leases.back()), HOLDFAST_OK);
  EXPECT_EQ(read(&lease), HOLDFAST_OK);
  leases.back() = lease;
  for (holdfast_lease& one : leases) ASSERT_EQ(dict.unlock("key", &one), HOLDFAST_OK);
  EXPECT_EQ(count_shard(shard()).holders, 0U);
}

TEST_IN_TIME(PermitsTest, memory_of_free_permits_can_be_reclaimed) {
  for (int i = 0; i < 60; ++i) {
    const std::string key = "free-" + std::to_string(i);
    holdfast_lease lease{};
    dict.try_permits(key, HOLDFAST_RWLOCK, 1, 0, 0, &lease);
    dict.unlock(key, &lease);
  }
  EXPECT_EQ(dict.stats().entries, 0U);
  while (dict.store(HOLDFAST_SAFE_SET, "value-" + std::to_string(dict.stats().entries), std::string(500, 'v'), 0, 0) ==
         HOLDFAST_OK) {
  }
  EXPECT_EQ(dict.stats().evictions, 0U);
  EXPECT_LT(dict.free_space(), 600U);
}

// --- order ---

TEST_IN_TIME(PermitsTest, readers_are_not_starved_by_writers) {
  Writer writers[3] = {Writer(dict), Writer(dict), Writer(dict)};
  ASSERT_EQ(writers[0].wait(), HOLDFAST_OK);
  ASSERT_EQ(writers[1].wait(), HOLDFAST_LOCKED);
  Reader reader(dict);
  ASSERT_EQ(reader.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(writers[0].lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(writers[1].wait(), HOLDFAST_OK);
  EXPECT_EQ(post(writers[1].lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(reader.wait(), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(reader.lease), HOLDFAST_OK);
  EXPECT_EQ(writers[2].wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, one_release_admits_all_readers_each_woken_by_its_predecessor) {
  holdfast_lease writer{};
  ASSERT_EQ(write(&writer), HOLDFAST_OK);
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 5; ++i) {
    readers.push_back(std::make_unique<Reader>(dict));
    ASSERT_EQ(readers.back()->wait(), HOLDFAST_LOCKED);
  }
  EXPECT_EQ(dict.waiters("key"), 5);
  const std::uint64_t wakes = dict.stats().lock_wakes;
  EXPECT_EQ(post(writer), HOLDFAST_OK);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    EXPECT_TRUE(readers[i]->is_woken());
    for (std::size_t behind = i + 1; behind < readers.size(); ++behind) EXPECT_FALSE(readers[behind]->is_woken());
    EXPECT_EQ(readers[i]->wait(), HOLDFAST_OK);
  }
  EXPECT_EQ(dict.stats().lock_wakes - wakes, 5U) << "each grant must need one wake-up";
  EXPECT_EQ(dict.waiters("key"), 0);
}

TEST_IN_TIME(PermitsTest, a_waiter_for_few_permits_does_not_overtake_a_waiter_for_many) {
  holdfast_lease two = acquired(2);
  Taker large(dict, 3);
  ASSERT_EQ(large.wait(), HOLDFAST_LOCKED);
  holdfast_lease small{};
  EXPECT_EQ(acquire(1, &small), HOLDFAST_LOCKED);
  Taker behind(dict, 1);
  EXPECT_EQ(behind.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(large.leave(), HOLDFAST_OK);
  EXPECT_TRUE(behind.is_woken()) << "the waiter must be woken, because the waiter before it has left";
  EXPECT_EQ(behind.wait(), HOLDFAST_OK);
  post(two);
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_may_be_overtaken_for_a_short_time_but_a_fair_waiter_never) {
  for (const bool fair : {false, true}) {
    SCOPED_TRACE(fair);
    holdfast_lease lease = acquired(3);
    Taker first(dict, 1, fair);
    ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
    if (!fair) sleep_ms(1);
    dict.unlock("key", &lease);
    EXPECT_EQ(acquire(1, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(first.wait(), HOLDFAST_OK);
    EXPECT_EQ(post(first.lease), HOLDFAST_OK);
  }
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_is_overtaken_at_most_a_few_times) {
  std::uint32_t most = 0;
  for (int round = 0; round < 50; ++round) {
    holdfast_lease lease = acquired(3);
    Taker first(dict);
    ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
    dict.unlock("key", &lease);
    std::uint32_t passed = 0;
    while (acquire(1, &lease) == HOLDFAST_OK) {
      ++passed;
      dict.unlock("key", &lease);
    }
    most = std::max(most, passed);
    ASSERT_LE(passed, kOvertakesMax);
    ASSERT_EQ(first.wait(), HOLDFAST_OK);
    ASSERT_EQ(post(first.lease), HOLDFAST_OK);
  }
  EXPECT_GT(most, 0U) << "requests for short sections must continue while a waiter wakes up";
}

TEST_IN_TIME(PermitsTest, nobody_overtakes_a_fair_waiter_behind_the_first) {
  holdfast_lease one = acquired(1);
  Taker large(dict, 3);
  Taker fair(dict, 1, true);
  ASSERT_EQ(large.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(fair.wait(), HOLDFAST_LOCKED);
  dict.unlock("key", &one);
  holdfast_lease late{};
  EXPECT_EQ(acquire(1, &late), HOLDFAST_LOCKED) << "a fair waiter was overtaken";
  EXPECT_EQ(large.wait(), HOLDFAST_OK);
  EXPECT_EQ(post(large.lease), HOLDFAST_OK);
  EXPECT_EQ(fair.wait(), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, a_woken_waiter_that_does_not_respond_leaves_the_queue_after_a_while) {
  holdfast_lease lease = acquired(3);
  Taker first(dict, 1);
  Taker second(dict, 3);
  ASSERT_EQ(first.wait(), HOLDFAST_LOCKED);
  ASSERT_EQ(second.wait(), HOLDFAST_LOCKED);
  post(lease);
  EXPECT_EQ(second.wait(), HOLDFAST_LOCKED);
  sleep_ms(80);
  EXPECT_TRUE(second.is_woken(5)) << "the second waiter must detect by itself that the first does not respond";
  EXPECT_EQ(second.wait(), HOLDFAST_OK);
  EXPECT_EQ(first.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(second.lease), HOLDFAST_OK);
  EXPECT_EQ(first.wait(), HOLDFAST_OK);
}

// --- what ends a grant ---

TEST_IN_TIME(PermitsTest, a_dead_processs_permits_are_freed) {
  Resident child([&] { acquired(2); });
  holdfast_lease mine = acquired(1);
  holdfast_lease lease{};
  EXPECT_EQ(acquire(1, &lease), HOLDFAST_LOCKED);
  child.kill_and_wait();
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_EQ(acquire(2, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 3);
  EXPECT_EQ(post(mine), HOLDFAST_OK) << "a live process lost its permits";
}

TEST_IN_TIME(PermitsTest, more_dead_processes_than_one_attempt_checks_cause_no_delay) {
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

TEST_IN_TIME(PermitsTest, expiry_admits_the_next_waiter) {
  holdfast_lease lease{};
  ASSERT_EQ(write(&lease, 0.05), HOLDFAST_OK);
  Reader reader(dict);
  ASSERT_EQ(reader.wait(), HOLDFAST_LOCKED);
  EXPECT_LE(reader.sleep_time(), 0.06);
  EXPECT_TRUE(reader.get());
}

TEST_IN_TIME(PermitsTest, expire_ends_all_grants) {
  const holdfast_lease leases[] = {acquired(1, 100), acquired()};
  EXPECT_EQ(dict.expire("key", 0.001), HOLDFAST_OK);
  sleep_ms(10);
  for (const holdfast_lease& lease : leases) {
    EXPECT_EQ(dict.remaining("key", lease), -1);
    EXPECT_EQ(dict.renew("key", lease, 10), HOLDFAST_NOT_FOUND);
  }
  EXPECT_EQ(dict.flush_expired(), 0) << "free permits must not count as entries";
  EXPECT_EQ(count_shard(shard()).holders, 0U);
}

TEST_IN_TIME(PermitsTest, waiters_are_woken_when_all_grants_end) {
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

TEST_IN_TIME(PermitsTest, repair_keeps_holders_and_counts_them_again) {
  holdfast_lease one = acquired(1, 100);
  holdfast_lease two = acquired(2);
  Taker waiter(dict);
  ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  fields().used.store(77);
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(fields().used.load(), 3U);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(dict.waiters("key"), 0) << "the repair must drop the queue";
  EXPECT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(post(one), HOLDFAST_OK);
  EXPECT_EQ(waiter.wait(), HOLDFAST_OK);
  EXPECT_EQ(post(two), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, repair_cuts_a_chain_before_the_first_invalid_holder) {
  for (int damage = 0; damage < 6; ++damage) {
    SCOPED_TRACE(damage);
    holdfast_lease leases[3] = {acquired(), acquired(), acquired()};
    holdfast_lease elsewhere{};
    ASSERT_EQ(dict.try_permits("other", HOLDFAST_RWLOCK, 1, 0, 0, &elsewhere), HOLDFAST_OK);
    const std::uint32_t first = fields().holders.load();  // belongs to the last lease
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
    EXPECT_EQ(dict.unlock("other", &elsewhere), HOLDFAST_OK) << "another key's lease was lost";
  }
}

TEST_IN_TIME(PermitsTest, calls_that_find_damage_repair_it_and_continue) {
  const auto damaged = [&] {
    dict.remove("key");
    holdfast_lease lease = acquired();
    acquired();
    shard().entry(fields().holders.load()).next.store(0xFFFFFFFF);
    return lease;  // its holder is cut off
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
