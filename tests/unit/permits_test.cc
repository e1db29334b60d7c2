// Counted permits through the C ABI: semaphores and rwlocks, beside other things, and in what memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// --- semaphores ---

TEST_IN_TIME(PermitsTest, the_last_caller_says_how_many_there_are) {
  holdfast_lease leases[4]{};
  ASSERT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 2, 2, 0, &leases[0]), HOLDFAST_OK);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 2, 0, &leases[1]), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 3, 0, &leases[1]), HOLDFAST_OK);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 1, 0, &leases[2]), HOLDFAST_LOCKED) << "3 of 1 in use";
  dict.unlock("key", &leases[0]);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 1, 0, &leases[2]), HOLDFAST_LOCKED) << "1 of 1";
  dict.unlock("key", &leases[1]);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 1, 0, &leases[2]), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, what_makes_no_sense_is_refused_with_a_sentence) {
  holdfast_lease lease{};
  const auto attempt = [&](int kind, std::uint32_t want, std::uint32_t total) {
    EXPECT_EQ(dict.try_permits("key", kind, want, total, 0, &lease), HOLDFAST_INVALID);
    return std::string(holdfast_error());
  };
  EXPECT_EQ(attempt(2, 1, 1), "bad kind of permits: expected HOLDFAST_RWLOCK or HOLDFAST_SEMAPHORE");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 1, 0), "bad number of permits 0: expected 1 to 1073741823");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 1, kAll), "bad number of permits 1073741824: expected 1 to 1073741823");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 0, 3), "bad number of wanted permits 0: expected 1 to 3, all there are");
  EXPECT_EQ(attempt(HOLDFAST_SEMAPHORE, 4, 3), "bad number of wanted permits 4: expected 1 to 3, all there are");
  EXPECT_EQ(attempt(HOLDFAST_RWLOCK, kAll + 1, 0),
            "bad number of wanted permits 1073741825: expected 1 to read, HOLDFAST_ALL_PERMITS to write");
  EXPECT_EQ(attempt(HOLDFAST_RWLOCK, 2, 0),
            "bad number of wanted permits 2: expected 1 to read, HOLDFAST_ALL_PERMITS to write");
  EXPECT_EQ(dict.try_permits("", HOLDFAST_RWLOCK, 1, 0, 0, &lease), HOLDFAST_INVALID);
  EXPECT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, -1, &lease), HOLDFAST_INVALID);
  EXPECT_EQ(dict.keep("key", lease, 1), HOLDFAST_NOT_OWNER);
  holdfast_wait wait{};
  wait.parker = holdfast_parker_new();
  EXPECT_EQ(dict.wait_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &wait, &lease), HOLDFAST_INVALID);
  holdfast_parker_free(wait.parker);
  EXPECT_EQ(dict.used("key"), 0);
}

TEST_IN_TIME(PermitsTest, permits_expire_each_at_its_time) {
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

TEST_IN_TIME(PermitsTest, a_renewal_moves_the_end_of_one_grant_in_either_direction) {
  holdfast_lease first = acquired(1, 0.05);
  holdfast_lease second = acquired(1, 100);
  EXPECT_EQ(dict.renew("key", first, 0), HOLDFAST_OK);
  EXPECT_EQ(dict.remaining("key", first), 0) << "never";
  EXPECT_EQ(dict.renew("key", second, 0.05), HOLDFAST_OK);
  sleep_ms(70);
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_EQ(dict.remaining("key", first), 0);
  EXPECT_EQ(dict.remaining("key", second), -1);
  EXPECT_EQ(dict.renew("key", first, 200), HOLDFAST_OK);
  EXPECT_GT(dict.remaining("key", first), 100);
}

// --- rwlocks ---

// The sum of the permits in use is derived from them, and may be overwritten.
TEST_IN_TIME(PermitsTest, nobody_comes_in_beside_others_because_a_word_says_that_nobody_is_there) {
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

TEST_IN_TIME(PermitsTest, a_writer_that_keeps_one_permit_reads_and_lets_readers_in) {
  holdfast_lease writer{};
  ASSERT_EQ(write(&writer), HOLDFAST_OK);
  Reader first(dict);
  Reader second(dict);
  Writer third(dict);
  EXPECT_EQ(first.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(second.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(third.wait(), HOLDFAST_LOCKED);
  const holdfast_lease before = writer;
  EXPECT_EQ(dict.keep("key", writer, 1), HOLDFAST_OK);
  EXPECT_EQ(dict.used("key"), 1);
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_EQ(third.wait(), HOLDFAST_LOCKED);
  EXPECT_EQ(writer.sequence, before.sequence) << "it is the same lease";
  EXPECT_EQ(dict.keep("key", writer, 2), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad number of permits to keep 2: expected 1 up to what the lease has");
  EXPECT_EQ(dict.keep("key", writer, 0), HOLDFAST_INVALID);
  EXPECT_EQ(dict.keep("key", writer, 1), HOLDFAST_OK) << "nothing to do";
  EXPECT_EQ(post(writer), HOLDFAST_OK);
  EXPECT_EQ(post(first.lease), HOLDFAST_OK);
  EXPECT_EQ(post(second.lease), HOLDFAST_OK);
  EXPECT_TRUE(third.get());
}

// --- beside other things ---

TEST_IN_TIME(PermitsTest, what_is_held_reads_as_true_and_what_is_free_as_nothing) {
  EXPECT_EQ(dict.get("key"), nothing());
  holdfast_lease first = acquired(1, 50);
  holdfast_lease second = acquired(1, 100);
  EXPECT_EQ(dict.get("key"), boolean(true));
  EXPECT_EQ(dict.keys(), std::multiset<std::string>{"key"});
  EXPECT_GT(dict.ttl("key"), 60) << "until the last one ends";
  EXPECT_EQ(dict.add("key", "value"), HOLDFAST_EXISTS);
  post(first);
  EXPECT_EQ(dict.get("key"), boolean(true));
  post(second);
  EXPECT_EQ(dict.get("key"), nothing());
  EXPECT_EQ(dict.keys().size(), 0U);
  EXPECT_EQ(dict.stats().entries, 0U);
  EXPECT_EQ(dict.add("key", "value"), HOLDFAST_OK);
}

TEST_IN_TIME(PermitsTest, what_only_dead_processes_hold_reads_as_nothing) {
  const auto become_reader = [&] {
    holdfast_lease lease{};
    EXPECT_EQ(read(&lease), HOLDFAST_OK);
  };
  Resident one(become_reader);
  Resident two(become_reader);
  EXPECT_EQ(dict.get("key"), boolean(true));
  two.kill_and_wait();
  EXPECT_EQ(dict.get("key"), boolean(true)) << "one of them lives";
  one.kill_and_wait();
  EXPECT_EQ(dict.get("key"), nothing());
}

TEST_IN_TIME(PermitsTest, something_of_another_kind_that_is_held_is_waited_for_and_a_free_one_replaced) {
  holdfast_lease lock{};
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_lock("key", 0, &lock), HOLDFAST_OK);
  EXPECT_EQ(read(&lease), HOLDFAST_LOCKED);
  dict.unlock("key", &lock);
  EXPECT_EQ(read(&lease), HOLDFAST_OK);
  EXPECT_EQ(dict.try_lock("key", 0, &lock), HOLDFAST_LOCKED);
  holdfast_lease other{};
  EXPECT_EQ(acquire(1, &other), HOLDFAST_LOCKED) << "a semaphore over a rwlock";
  post(lease);
  EXPECT_EQ(acquire(1, &other), HOLDFAST_OK);
  post(other);
  EXPECT_EQ(dict.try_lock("key", 0, &lock), HOLDFAST_OK);
  dict.unlock("key", &lock);
  dict.set("key", "value", 0.05);
  Reader reader(dict);
  EXPECT_EQ(reader.wait(), HOLDFAST_LOCKED);
  EXPECT_LE(reader.sleep_time(), 0.06) << "it polls";
  EXPECT_EQ(dict.get("key"), text("value"));
  EXPECT_TRUE(reader.get());
}

TEST_IN_TIME(PermitsTest, a_dead_process_holds_nothing_of_any_kind) {
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

TEST_IN_TIME(PermitsTest, holders_stay_where_they_are_while_values_make_way_for_each_other) {
  std::vector<holdfast_lease> leases;
  for (int i = 0; i < 40; ++i) {
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_permits("key-" + std::to_string(i % 7), HOLDFAST_RWLOCK, 1, 0, 0, &lease), HOLDFAST_OK);
    leases.push_back(lease);
    dict.set("value-" + std::to_string(i), std::string(static_cast<std::size_t>(i) * 9, 'v'));
  }
  for (int round = 0; round < 300; ++round)
    ASSERT_EQ(
        dict.set("value-" + std::to_string(round % 37), std::string(static_cast<std::size_t>(round * 31 % 2000), 'w')),
        HOLDFAST_OK);
  EXPECT_EQ(check_shard(shard()), "");
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(dict.unlock("key-" + std::to_string(i % 7), &leases[i]), HOLDFAST_OK) << i;
}

TEST_IN_TIME(PermitsTest, free_permits_are_memory_to_be_had) {
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

}  // namespace
}  // namespace holdfast::test
