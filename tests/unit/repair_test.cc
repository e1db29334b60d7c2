// Tests that a repair rebuilds a shard from its chains, whatever else the shard contains.
#include "dict/repair.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dict/wait_queue.h"
#include "support/dict_test.h"
#include "support/private_shard.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

class RepairTest : public DictTest {
 protected:
  RepairTest() : DictTest({.size = 32768}) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    for (int i = 0; i < kKeys; ++i) ASSERT_EQ(dict.set(key(i), value(i)), HOLDFAST_OK);
    for (int i = 0; i < kElements; ++i) ASSERT_GT(dict.push("list-" + std::to_string(i % 3), i / 3 % 2, value(i)), 0);
    ASSERT_EQ(dict.try_lock("held", 0, &held), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("free", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("free", &lease), HOLDFAST_OK);
    ASSERT_EQ(check_shard(shard()), "");
  }
  static constexpr int kKeys = 160;
  static constexpr int kElements = 40;
  static std::string key(int i) { return "key-" + std::to_string(i * 7919); }
  static std::string value(int i) { return std::string(static_cast<std::size_t>(i * 13 % 90), 'a' + i % 26); }
  int lost() {
    int count = 0;
    for (int i = 0; i < kKeys; ++i) {
      const Got got = dict.get(key(i));
      if (got == nothing())
        ++count;
      else
        EXPECT_EQ(got, text(value(i)));
    }
    return count;
  }
  /// Returns the bucket of a chain with at least this many entries.
  std::uint32_t long_chain(int length) {
    for (std::uint32_t bucket = 0; bucket < shard().buckets(); ++bucket) {
      int found = 0;
      for (std::uint32_t block = shard().bucket(bucket).load(); block != 0; block = shard().entry(block).next.load())
        ++found;
      if (found >= length) return bucket;
    }
    ADD_FAILURE() << "there is no long chain; the test needs more keys";
    return 0;
  }

  holdfast_lease held{};
  holdfast_lease lease{};
};

TEST_F(RepairTest, an_intact_shard_loses_nothing) {
  const std::uint64_t before = dict.free_space();
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(lost(), 0);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(dict.unlock("held", &held), HOLDFAST_OK) << "the lease was lost";
}

TEST_F(RepairTest, everything_derived_is_rebuilt) {
  const std::uint64_t before = dict.free_space();
  ShardHeader& header = shard().header();
  for (Word32& bin : header.bins) bin.store(0xDEADBEEF);
  for (Word64& word : header.bin_map) word.store(~0ULL);
  for (std::uint32_t i = 0; i < (shard().granules() + 63) / 64; ++i) shard().free_bits()[i].store(0x5555555555555555);
  header.free_granules.store(7);
  header.entries.store(0);
  header.perhaps_free.store(9999);
  header.reclaim_after.store(~0ULL);
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(lost(), 0);
  EXPECT_EQ(dict.free_space(), before);
}

TEST_F(RepairTest, a_link_that_leaves_the_arena_is_cut) {
  for (const std::uint32_t link : {shard().granules() - 1, shard().granules(), 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    const std::uint32_t bucket = long_chain(1);
    shard().bucket(bucket).store(link);
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(shard().bucket(bucket).load(), 0U);
  }
  EXPECT_GT(lost(), 0);
}

TEST_F(RepairTest, a_chain_in_a_cycle_ends_at_its_last_entry) {
  const std::uint32_t bucket = long_chain(3);
  const std::uint32_t first = shard().bucket(bucket).load();
  Entry& second = shard().entry(shard().entry(first).next.load());
  const std::uint32_t rest = second.next.load();
  EXPECT_NE(rest, 0U);
  const std::uint32_t entries = shard().header().entries.load();
  second.next.store(first);
  EXPECT_EQ(repair(shard()), 1U);
  EXPECT_EQ(second.next.load(), 0U);
  EXPECT_LT(shard().header().entries.load(), entries);
}

TEST_F(RepairTest, an_entry_of_another_chain_is_cut_off) {
  const std::uint32_t bucket = long_chain(2);
  for (std::uint32_t other = 0; other < shard().buckets(); ++other) {
    if (other == bucket || shard().bucket(other).load() == 0) continue;
    shard().entry(shard().bucket(other).load()).next.store(shard().bucket(bucket).load());
    break;
  }
  EXPECT_EQ(repair(shard()), 1U);
}

TEST_F(RepairTest, overlapping_entries_are_not_both_kept) {
  Entry& entry = *place_of(key(5)).view.entry;
  entry.value_size.store(entry.value_size.load() + 2000);
  EXPECT_GE(repair(shard()), 1U);
}

TEST_F(RepairTest, waiters_are_forgotten_and_their_memory_is_freed) {
  const std::uint64_t before = dict.free_space();
  Waiting waiting[3];
  for (Waiting& one : waiting) ASSERT_EQ(one.once(dict, "held", &lease), HOLDFAST_LOCKED);
  EXPECT_LT(dict.free_space(), before);
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(dict.unlock("held", &held), HOLDFAST_OK);
}

/// Returns the bytes of a shard without its counts of repairs and reuses.
std::string image_of(Shard& shard, const Geometry& geometry) {
  ShardHeader& header = shard.header();
  const std::uint64_t epoch = header.reuse_epoch.exchange(0);
  const std::uint64_t repairs = header.repairs.exchange(0);
  std::string image(reinterpret_cast<const char*>(&header), geometry.shard_bytes);
  header.reuse_epoch.store(epoch);
  header.repairs.store(repairs);
  return image;
}

TEST_F(RepairTest, a_second_repair_changes_nothing) {
  repair(shard());
  const std::string once = image_of(shard(), dict.segment().geometry());
  repair(shard());
  EXPECT_EQ(once == image_of(shard(), dict.segment().geometry()), true);
}

TEST_F(RepairTest, any_bytes_become_consistent_and_stay_so) {
  const std::uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    PrivateShard copy(dict.segment().geometry().size, &shard().header());
    // Overwrites a few words, many words, or all of them. Most of the new links point into the arena.
    const std::size_t words = copy.size() / 4;
    const std::size_t changes = round % 3 == 0 ? 5 : round % 3 == 1 ? 300 : words;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::uint32_t value =
          static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % copy.shard().granules());
      reinterpret_cast<Word32*>(copy.bytes())[changes == words ? i : random() % words].store(value);
    }
    repair(copy.shard());
    ASSERT_EQ(check_shard(copy.shard()), "");
    const std::string once = image_of(copy.shard(), copy.geometry());
    EXPECT_EQ(repair(copy.shard()), 0U);
    ASSERT_EQ(once == image_of(copy.shard(), copy.geometry()), true) << "a second repair changed something";
  }
}

}  // namespace
}  // namespace holdfast::test
