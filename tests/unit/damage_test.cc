// Overwrites a word of shared memory. Tests that each call returns soon, and that the repair of the shard is counted.
#include <gtest/gtest.h>
#include <time.h>

#include <functional>
#include <string>
#include <vector>

#include "dict/guard.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

/// Returns the processor time that this process has used. It does not depend on how busy the machine is.
double used_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

class DamageTest : public DictTest {
 protected:
  DamageTest() : DictTest({.size = 1 << 20}) {}

  static constexpr double kAtMostSeconds = 0.5;  // half of the manual's limit

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    ASSERT_EQ(dict.set(big + "a", "v"), HOLDFAST_OK);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(dict.set("key-" + std::to_string(i), "v"), HOLDFAST_OK);
  }
  Key key_of(const std::string& name) { return Key(name, dict.segment().seed()); }
  /// Puts the longest key into a cycle, and makes the shard treat it as a different key of the same length.
  void make_cycle(const std::string& other) {
    const Position position = place_of(big + "a");
    position.link->store(0);
    const std::uint32_t hash = key_of(other).short_hash();
    position.view.entry->hash.store(hash);
    position.view.entry->next.store(position.block);
    shard().bucket_of(hash).store(position.block);
  }

  /// Expects that the call returns soon and repairs the shard once, and that the next call has nothing to repair.
  void expect_repair(const std::function<void()>& call) {
    const std::uint64_t repairs = dict.stats().repairs;
    double start = used_seconds();
    call();
    EXPECT_LT(used_seconds() - start, kAtMostSeconds);
    EXPECT_EQ(dict.stats().repairs, repairs + 1) << "damage was not repaired, or not counted";
    EXPECT_EQ(check_segment(dict.segment()), "");
    start = used_seconds();
    call();
    EXPECT_LT(used_seconds() - start, kAtMostSeconds);
    EXPECT_EQ(dict.stats().repairs, repairs + 1);
  }

  const std::string big = std::string(HOLDFAST_KEY_MAX - 1, 'K');
};

TEST_F(DamageTest, get_set_and_delete_find_a_cycle_of_long_keys) {
  for (int call = 0; call < 3; ++call) {
    SCOPED_TRACE(call);
    ASSERT_EQ(dict.set(big + "a", "v"), HOLDFAST_OK);
    make_cycle(big + "b");
    expect_repair([&] {
      if (call == 0) {
        EXPECT_EQ(dict.get(big + "b"), nothing());
      }
      if (call == 1) {
        EXPECT_EQ(dict.set(big + "b", "v"), HOLDFAST_OK);
      }
      if (call == 2) {
        EXPECT_EQ(dict.remove(big + "b"), HOLDFAST_OK);
      }
    });
    EXPECT_EQ(dict.remove(big + "b"), HOLDFAST_OK);
  }
}

TEST_F(DamageTest, a_scan_and_a_list_of_keys_find_a_cycle_of_long_keys) {
  for (const bool scan : {false, true}) {
    ASSERT_EQ(dict.set(big + "a", "v"), HOLDFAST_OK);
    const Position position = place_of(big + "a");
    position.view.entry->next.store(position.block);
    expect_repair([&] { EXPECT_LE((scan ? dict.scan_all(100, "zz") : dict.keys()).size(), 101U); });
  }
}

TEST_F(DamageTest, flush_expired_finds_buckets_that_all_lead_to_one_cycle) {
  const Position position = place_of("key-1");
  position.view.entry->next.store(position.block);
  for (std::uint32_t bucket = 0; bucket < shard().buckets(); ++bucket) shard().bucket(bucket).store(position.block);
  expect_repair([&] { EXPECT_EQ(dict.flush_expired(), 0); });
}

TEST_F(DamageTest, a_walk_detects_an_entry_in_another_buckets_chain) {
  std::string passing;  // a key that does not exist, in an empty bucket
  for (int i = 0; passing.empty(); ++i)
    if (shard().bucket_of(key_of("other-" + std::to_string(i)).short_hash()).load() == 0)
      passing = "other-" + std::to_string(i);
  for (int call = 0; call < 3; ++call) {
    SCOPED_TRACE(call);
    shard().bucket_of(key_of(passing).short_hash()).store(place_of("key-1").block);
    expect_repair([&] {
      if (call == 0) {
        EXPECT_EQ(dict.get(passing), nothing());
      }
      if (call == 1) {
        EXPECT_EQ(dict.set(passing, "v"), HOLDFAST_OK);
      }
      if (call == 2) {
        EXPECT_EQ(dict.flush_expired(), 0);
      }
    });
    if (call == 1) {
      EXPECT_EQ(dict.remove(passing), HOLDFAST_OK);
    }
  }
}

TEST_F(DamageTest, get_finds_a_number_of_a_wrong_size) {
  ASSERT_EQ(dict.set_number("number", 7), HOLDFAST_OK);
  EXPECT_EQ(dict.get("number"), number(7));
  place_of("number").view.entry->value_size.store(16);
  expect_repair([&] { EXPECT_EQ(dict.get("number"), nothing()); });
}

TEST_F(DamageTest, a_cycle_of_holders_is_found) {
  for (int call = 0; call < 3; ++call) {
    SCOPED_TRACE(call);
    const std::string name = "permits-" + std::to_string(call);
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_permits(name, HOLDFAST_SEMAPHORE, 1, 3, 0, &lease), HOLDFAST_OK);
    EntryView holder{};
    const std::uint32_t block = place_of(name).view.permits().holders.load();
    ASSERT_TRUE(shard().inspect(block, holder));
    holder.entry->next.store(block);
    expect_repair([&] {
      if (call == 0) {
        EXPECT_GE(dict.used(name), 0);
      }
      if (call == 1) {
        EXPECT_EQ(dict.flush_expired(), 0);
      }
      holdfast_lease other{};
      if (call == 2) {
        EXPECT_EQ(dict.try_permits(name, HOLDFAST_SEMAPHORE, 3, 3, 0, &other), HOLDFAST_LOCKED);
      }
    });
  }
}

// When a node is moved, it must first be found in its list, which takes time. The repair must not do this for each
// node.
TEST_F(DamageTest, nodes_that_belong_to_no_list_are_freed) {
  for (int i = 0; i < 7000; ++i) ASSERT_GT(dict.push("list", 1, std::string(60, 'e')), 0);
  Position position = place_of("list");
  ListEnds ends = position.view.list_ends();
  ends.length = 2;
  position.view.list().word.store(ends.word());
  expect_repair([&] { EXPECT_EQ(dict.set("large", std::string(500'000, 'v')), HOLDFAST_OK); });
}

TEST_F(DamageTest, a_free_block_with_an_overwritten_size_does_not_release_an_entrys_memory) {
  // There are two free blocks with an entry between them. The first block has a size that reaches to the end of the
  // second.
  ASSERT_EQ(dict.set("left", std::string(3000, 'l')), HOLDFAST_OK);
  ASSERT_EQ(dict.set("middle", std::string(3000, 'm')), HOLDFAST_OK);
  ASSERT_EQ(dict.set("right", std::string(3000, 'r')), HOLDFAST_OK);
  ASSERT_EQ(dict.set("end", "v"), HOLDFAST_OK);
  const Position left = place_of("left");
  const Position right = place_of("right");
  const std::uint32_t size = right.block + right.view.granules - left.block;
  ASSERT_EQ(dict.remove("left"), HOLDFAST_OK);
  ASSERT_EQ(dict.remove("right"), HOLDFAST_OK);
  shard().words32(left.block)[0].store(size);
  // Some of these stores take blocks from the bin for the overwritten size.
  const std::uint64_t repairs = dict.stats().repairs;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(dict.set("new-" + std::to_string(i), std::string(2900, 'n')), HOLDFAST_OK);
  EXPECT_EQ(dict.get("middle"), text(std::string(3000, 'm')));
  EXPECT_EQ(dict.flush_expired(), 0);
  EXPECT_EQ(dict.stats().repairs, repairs + 1);
}

TEST_F(DamageTest, a_spare_block_inside_an_entry_does_not_release_the_entrys_memory) {
  const std::uint32_t three = 3;  // number of granules that "new" takes
  std::string value;
  while (value.size() < 80) value.append(reinterpret_cast<const char*>(&three), sizeof three);
  ASSERT_EQ(dict.set("key-7", value), HOLDFAST_OK);
  const std::uint32_t inside = place_of("key-7").block + 4;
  header().bins[kSpareBin].store(inside);
  expect_repair([&] { EXPECT_EQ(dict.set("new", "v"), HOLDFAST_OK); });
  EXPECT_EQ(dict.get("key-7"), text(value));
  header().bins[kSpareBin].store(inside);
  expect_repair([&] { EXPECT_EQ(dict.flush_expired(), 0); });
  EXPECT_EQ(dict.get("key-7"), text(value));
}

TEST_F(DamageTest, overwritten_counts_are_corrected_by_flush_expired) {
  ASSERT_EQ(dict.remove("key-7"), HOLDFAST_OK);  // leaves a free block between other blocks
  std::uint32_t bin = 1;
  while (header().bins[bin].load() == 0) ++bin;
  const std::vector<Word32*> words = {&header().free_granules, &header().entries, &header().waiters,
                                      &header().bins[bin]};
  for (Word32* word : words) {
    SCOPED_TRACE(word - &header().free_granules);
    word->store(word->load() ^ 1);
    expect_repair([&] { EXPECT_EQ(dict.flush_expired(), 0); });
  }
  header().bin_map[1].store(header().bin_map[1].load() ^ 1);
  expect_repair([&] { EXPECT_EQ(dict.flush_expired(), 0); });
  header().in_use.store(0);
  expect_repair([&] { EXPECT_EQ(dict.flush_expired(), 0); });
}

TEST_F(DamageTest, overwritten_counts_do_not_make_memory_scarce) {
  header().free_granules.store(1);
  header().no_run.store(1);
  for (Word32& bin : header().bins) bin.store(0);
  EXPECT_EQ(dict.store(HOLDFAST_SAFE_SET, "new", std::string(5000, 'n'), 0, 0), HOLDFAST_OK);
  EXPECT_EQ(dict.stats().repairs, 1U);
}

}  // namespace
}  // namespace holdfast::test
