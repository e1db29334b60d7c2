// Compares overwrites of equal size, which need no transaction, with the same changes by `replace`, which uses a
// transaction.
#include "dict/overwrite.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "dict/guard.h"
#include "dict/repair.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

class OverwriteTest : public DictTest {
 protected:
  std::uint32_t block_of(const std::string& key) { return place_of(key).block; }
  std::uint32_t spare() { return shard().header().bins[kSpareBin].load(); }
};

TEST_F(OverwriteTest, a_string_alternates_between_two_blocks) {
  dict.set("k", std::string(100, 'a'));
  dict.set("k", std::string(100, 'b'));
  const std::uint32_t first = block_of("k");
  const std::uint32_t second = spare();
  const std::uint64_t free = dict.free_space();
  for (int i = 0; i < 5; ++i) {
    const std::string value(100, static_cast<char>('c' + i));
    EXPECT_EQ(dict.set("k", value, 0, 7), HOLDFAST_OK);
    EXPECT_EQ(dict.get("k"), text(value, 7));
    EXPECT_EQ(block_of("k"), i % 2 == 0 ? second : first);
    EXPECT_EQ(spare(), i % 2 == 0 ? first : second);
    EXPECT_EQ(dict.free_space(), free);
  }
}

TEST_F(OverwriteTest, a_number_stays_in_its_block) {
  dict.set_number("k", 1);
  const std::uint32_t block = block_of("k");
  const std::uint64_t epoch = shard().epoch();
  EXPECT_EQ(dict.set_number("k", 2), HOLDFAST_OK);
  double sum = 0;
  EXPECT_EQ(dict.incr("k", 0.5, &sum), HOLDFAST_OK);
  EXPECT_EQ(sum, 2.5);
  EXPECT_EQ(dict.get("k"), number(2.5));
  EXPECT_EQ(block_of("k"), block);
  EXPECT_EQ(shard().epoch(), epoch);
}

// A reader that began earlier must not mistake the block's next content for the value.
TEST_F(OverwriteTest, the_block_that_a_string_leaves_is_announced_to_readers) {
  dict.set("k", std::string(100, 'a'));
  dict.set("k", std::string(100, 'b'));
  const std::uint64_t epoch = shard().epoch();
  dict.set("k", std::string(100, 'c'));
  EXPECT_GT(shard().epoch(), epoch);
}

TEST_F(OverwriteTest, the_sweep_visits_an_overwritten_string_after_all_others) {
  dict.set("k", std::string(100, 'a'));
  dict.set("k", std::string(100, 'b'));
  const std::uint32_t next = spare();
  shard().header().hand.store(next);
  dict.set("k", std::string(100, 'c'));
  EXPECT_EQ(block_of("k"), next);
  EXPECT_GT(shard().header().hand.load(), next);
}

TEST_F(OverwriteTest, an_expiring_string_is_recorded_for_the_search_for_memory) {
  dict.set("k", std::string(100, 'a'));
  dict.set("k", std::string(100, 'b'));
  dict.set("k", std::string(100, 'c'), 1000);
  const std::uint64_t end = shard().header().reclaim_after.load();
  dict.set("k", std::string(100, 'd'), 0.02);
  EXPECT_LT(shard().header().reclaim_after.load(), end);
}

TEST_F(OverwriteTest, the_use_count_moves_with_the_value) {
  dict.set("k", std::string(100, 'a'));
  for (int i = 0; i < 5; ++i) dict.set("k", std::string(100, 'b'));
  EXPECT_EQ(shard().uses(block_of("k")).load(), Shard::kUsesMax);
}

// There are few values, sizes, flags and exptimes, so a set often repeats the previous set.
TEST_F(OverwriteTest, a_set_has_the_same_result_as_a_replace) {
  Dict other(new_name());
  std::mt19937_64 random(seed_of_run());
  const auto draw = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (Dict* each : {&dict, &other})
    for (int key = 0; key < 4; ++key) each->set(std::string(1 + 7 * key, 'k'), "something");
  for (int step = 0; step < 5000; ++step) {
    const std::string key(1 + 7 * draw(4), 'k');
    const std::string value(8 * draw(3), static_cast<char>('a' + draw(26)));
    const int type = draw(2) == 0 ? HOLDFAST_NUMBER : draw(4) == 0 ? HOLDFAST_BOOLEAN : HOLDFAST_STRING;
    const double exptime = draw(2) == 0 ? 0 : 1000;
    const auto flags = static_cast<std::uint32_t>(draw(2));
    const double drawn = draw(2);
    const auto store = [&](Dict& into, int op) {
      return holdfast_store(into.handle, op, key.data(), key.size(), type, value.data(), value.size(), drawn, exptime,
                            flags, nullptr);
    };
    ASSERT_EQ(store(dict, HOLDFAST_SET), HOLDFAST_OK);
    ASSERT_EQ(store(other, HOLDFAST_REPLACE), HOLDFAST_OK);
    ASSERT_EQ(dict.get(key), other.get(key)) << "step " << step;
    ASSERT_NEAR(dict.ttl(key), other.ttl(key), 100) << "step " << step;
    ASSERT_EQ(dict.free_space(), other.free_space()) << "step " << step;
  }
  const ShardGuard guard(shard());
  EXPECT_TRUE(audit(shard(), dict.segment().seed()));
}

// The entry records a size that a number cannot have. The overwrite leaves the repair of such damage to the
// transaction.
TEST_F(OverwriteTest, an_inconsistent_entry_is_not_overwritten) {
  dict.set_number("k", 1);
  shard().entry(block_of("k")).value_size.store(16);
  EXPECT_EQ(dict.set_number("k", 2), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), number(2));
  EXPECT_EQ(dict.stats().repairs, 1U);
}

TEST_F(OverwriteTest, an_inconsistent_spare_block_is_not_filled) {
  dict.set("k", std::string(100, 'a'));
  dict.set("k", std::string(100, 'b'));
  const std::uint32_t before = spare();
  shard().words32(before)[1].store(77);
  EXPECT_EQ(dict.set("k", std::string(100, 'c')), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), text(std::string(100, 'c')));
  EXPECT_EQ(dict.stats().repairs, 1U);
}

}  // namespace
}  // namespace holdfast::test
