// Tests walks over a shard without its mutex: they visit each entry and each bucket that is not empty, and always end.
#include "dict/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dict/key.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

class WalkTest : public DictTest {
 protected:
  WalkTest() : DictTest({.size = 1 << 20}) {}  // one shard

  void put(int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(dict.set("k" + std::to_string(i), "v"), HOLDFAST_OK);
  }
  /// Returns the buckets from `from` to `end` that are not empty.
  std::vector<std::uint32_t> used(std::uint32_t from, std::uint32_t end) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = from; i < end; ++i)
      if (shard().bucket(i).load() != 0) found.push_back(i);
    return found;
  }
  std::vector<std::string> visited() {
    std::vector<std::string> keys;
    walk_entries(shard(), [&keys](const EntryView& view) -> std::uint32_t {
      std::string key(view.key_length, '\0');
      load_bytes(Shard::key_words(*view.entry), key.data(), key.size());
      keys.push_back(key);
      return 0;
    });
    return keys;
  }
};

TEST_F(WalkTest, used_buckets_come_in_order_and_the_position_is_the_next_one) {
  const std::uint32_t all = shard().buckets();
  std::uint32_t bucket = 0;
  EXPECT_FALSE(UsedBuckets(shard(), 0, all).next(bucket));
  EXPECT_EQ(UsedBuckets(shard(), 0, all).position(), all);
  for (const int keys : {1, 15, 16, 17, 31, 32, 33, 64, 1000}) {
    put(keys);
    for (const auto& [from, end] : {std::pair{0U, all}, {3U, 3U}, {7U, all / 2}, {all - 1, all}, {all, all}}) {
      const std::vector<std::uint32_t> expected = used(from, end);
      UsedBuckets walk(shard(), from, end);
      for (const std::uint32_t next : expected) {
        ASSERT_EQ(walk.position(), next) << keys;
        ASSERT_TRUE(walk.next(bucket)) << keys;
        ASSERT_EQ(bucket, next) << keys;
      }
      EXPECT_EQ(walk.position(), end) << keys;
      EXPECT_FALSE(walk.next(bucket)) << keys;
      EXPECT_FALSE(walk.next(bucket)) << keys;
      EXPECT_EQ(walk.position(), end) << keys;
    }
  }
}

TEST_F(WalkTest, no_bucket_is_lost_when_a_batch_overflows) {
  const std::uint32_t all = shard().buckets();
  for (std::uint32_t i = 1; i < all; ++i) shard().bucket(i).store(1);
  UsedBuckets walk(shard(), 0, all);
  std::uint32_t bucket = 0;
  for (std::uint32_t i = 1; i < all; ++i) {
    ASSERT_EQ(walk.position(), i);
    ASSERT_TRUE(walk.next(bucket));
    ASSERT_EQ(bucket, i);
  }
  EXPECT_FALSE(walk.next(bucket));
  for (std::uint32_t i = 1; i < all; ++i) shard().bucket(i).store(0);
}

TEST_F(WalkTest, every_entry_is_visited_once) {
  EXPECT_TRUE(visited().empty());
  put(3000);
  std::vector<std::string> keys = visited();
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(keys.size(), 3000U);
}

TEST_F(WalkTest, a_walk_ends_in_a_cycle_and_counts_its_visits) {
  put(1);
  const Position place = place_of("k0");
  place.view.entry->next.store(place.block);
  EXPECT_EQ(visited().size(), (shard().granules() + place.view.granules - 1) / place.view.granules);
  std::uint32_t visits = 0;
  walk_entries(shard(), [&](const EntryView&) -> std::uint32_t { return ++visits, shard().granules(); });
  EXPECT_EQ(visits, 1U);
  place.view.entry->next.store(0);
}

TEST_F(WalkTest, an_invalid_link_hides_only_the_entries_behind_it) {
  put(200);
  const Position place = place_of("k7");
  const std::uint32_t next = place.view.entry->next.load();
  place.view.entry->next.store(shard().granules());
  const std::vector<std::string> keys = visited();
  EXPECT_GE(keys.size(), 195U);
  EXPECT_NE(std::find(keys.begin(), keys.end(), "k7"), keys.end());
  place.view.entry->next.store(next);
}

}  // namespace
}  // namespace holdfast::test
