// Tests holdfast_check, which examines a whole dictionary without taking a mutex and without changing anything.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "support/dict_test.h"
#include "sync/shmtx.h"

namespace holdfast::test {
namespace {

class CheckTest : public DictTest {
 protected:
  CheckTest() : DictTest({.size = std::uint64_t{4} << 20}) {}

  holdfast_health check() {
    holdfast_health health{};
    EXPECT_EQ(holdfast_check(dict.handle, &health, sizeof health), HOLDFAST_OK) << holdfast_error();
    return health;
  }
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(dict.set(key, std::string(static_cast<std::size_t>(i % 300), 'x')), HOLDFAST_OK);
      if (i % 7 == 0) {
        ASSERT_GT(dict.push("list" + key, HOLDFAST_LEFT, key), 0);
      }
    }
  }
  Shard& shard_of(std::string_view key) { return dict.segment().shard_of(Key(key, dict.segment().seed()).hash); }
  /// REQUIRES: the key exists.
  Entry& entry_of(std::string_view key) {
    Position position{};
    EXPECT_TRUE(shard_of(key).find(Key(key, dict.segment().seed()), position));
    return *position.view.entry;
  }
  std::atomic<std::uint64_t>& mutex_of(std::string_view key) { return shard_of(key).header().mutex.word; }
};

TEST_F(CheckTest, finds_nothing_in_an_intact_dictionary_used_or_not) {
  EXPECT_EQ(check().used, 0U);
  fill(3000);
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(dict.explain("lock", lease, "why"), HOLDFAST_OK);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(dict.try_permits("read", HOLDFAST_RWLOCK, 1, 0, 0, &lease), HOLDFAST_OK);
  const holdfast_health health = check();
  EXPECT_EQ(health.used, dict.segment().shards().size());
  EXPECT_EQ(health.damaged + health.uncertain, 0U);
  EXPECT_EQ(dict.stats().repairs, 0U);
}

TEST_F(CheckTest, finds_damage_that_no_operation_has_noticed_and_does_not_change_it) {
  fill(3000);
  // Cuts a link. Nothing in the chain shows that it was longer.
  Shard& shard = shard_of("key1");
  std::uint32_t bucket = 0;
  while (shard.bucket(bucket).load(kRelaxed) == 0) ++bucket;
  const std::uint32_t before = shard.bucket(bucket).exchange(0, kRelaxed);
  const holdfast_health health = check();
  EXPECT_EQ(health.damaged, 1U);
  EXPECT_EQ(health.uncertain, 0U);
  EXPECT_EQ(check().damaged, 1U) << "the first check repaired the damage";
  EXPECT_EQ(dict.stats().repairs, 0U);
  shard.bucket(bucket).store(before, kRelaxed);
  EXPECT_EQ(check().damaged, 0U);
}

TEST_F(CheckTest, finds_overwritten_words_of_entries_and_counts) {
  fill(3000);
  for (Word32* const word : {&entry_of("key5").value_size, &entry_of("key6").hash, &shard_of("key7").header().entries,
                             &shard_of("key7").header().free_granules}) {
    const std::uint32_t before = word->fetch_xor(0x15, kRelaxed);
    EXPECT_EQ(check().damaged, 1U);
    word->store(before, kRelaxed);
    EXPECT_EQ(check().damaged, 0U);
  }
}

TEST_F(CheckTest, reports_mutexes_that_stay_held) {
  fill(3000);
  Started stopped("inside", [this](Channel& parent) {
    Shmtx& mutex = shard_of("key1").mutex();
    if (mutex.lock_for(kNsPerSecond) != LockResult::acquired) return 1;
    parent.say("inside");
    parent.hear();
    mutex.unlock();
    return 0;
  });
  holdfast_health health = check();
  EXPECT_EQ(health.held, 1U);
  EXPECT_EQ(health.uncertain, 1U);
  EXPECT_EQ(health.held_by_dead + health.held_by_idle + health.damaged, 0U);
  EXPECT_EQ(holdfast_process_lives(health.holder), HOLDFAST_OK);
  const std::uint64_t holder = health.holder;
  stopped.kill_and_wait();
  health = check();
  EXPECT_EQ(health.held_by_dead, 1U);
  EXPECT_EQ(health.held + health.held_by_idle, 0U);
  EXPECT_EQ(dict.set("key1", "v"), HOLDFAST_OK);
  EXPECT_EQ(check().uncertain, 0U);
  EXPECT_NE(holder, 0U);
  // The mutex names a live process that is not inside the shard.
  mutex_of("key1").store(owner_bits(dict.dictionary().world().known_token()) | std::uint64_t{77} << 32);
  health = check();
  EXPECT_EQ(health.held_by_idle, 1U);
  EXPECT_EQ(health.holder, dict.dictionary().world().known_token());
  mutex_of("key1").store(0);
}

TEST_F(CheckTest, never_mistakes_a_change_for_damage) {
  fill(2000);
  Started busy("begun", [this](Channel& parent) {
    parent.say("begun");
    const double end = holdfast_now() + 2;
    for (int i = 0; holdfast_now() < end; ++i) {
      const std::string key = "key" + std::to_string(i % 2500);
      dict.set(key, std::string(static_cast<std::size_t>(i % 900), 'y'));
      if (i % 3 == 0) dict.remove("key" + std::to_string(i % 1999));
      if (i % 5 == 0) dict.push("list" + key, HOLDFAST_RIGHT, key);
      holdfast_lease lease{};
      if (dict.try_lock("lock" + std::to_string(i % 10), 0, &lease) == HOLDFAST_OK)
        dict.unlock("lock" + std::to_string(i % 10), &lease);
    }
    return 0;
  });
  int checks = 0;
  for (const double end = holdfast_now() + 1.5; holdfast_now() < end; ++checks)
    ASSERT_EQ(check().damaged, 0U) << checks;
  EXPECT_EQ(busy.wait(), 0);
  EXPECT_EQ(check().damaged + check().uncertain, 0U);
}

TEST_F(CheckTest, requires_the_size_of_its_struct) {
  holdfast_health health{};
  EXPECT_EQ(holdfast_check(dict.handle, &health, 4), HOLDFAST_INVALID);
}

}  // namespace
}  // namespace holdfast::test
