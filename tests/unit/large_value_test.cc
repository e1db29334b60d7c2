// Tests dictionaries for large values: arenas with more blocks than in a usual dictionary, and deaths during a long
// store.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dict/repair.h"
#include "dict/reserved.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr std::size_t kSize = 44U << 20;
constexpr std::size_t kHalf = 22U << 20;
/// The size of a value that fits twice beside other entries.
constexpr std::size_t kThird = 14U << 20;
constexpr std::uint32_t kUsualBlocks = 1U << 21;

class LargeValueTest : public DictTest {
 protected:
  LargeValueTest() : DictTest({.size = kSize, .largest = kHalf}) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    ASSERT_EQ(dict.segment().shards().size(), 1U);
    ASSERT_GT(shard().all_granules(), kUsualBlocks);
  }
  /// Fills as many blocks as a usual arena has, so that the next entry comes after them.
  void fill_the_beginning() {
    ASSERT_EQ(dict.set("half", std::string(kHalf, 'h')), HOLDFAST_OK) << holdfast_error();
    ASSERT_EQ(dict.set("third", std::string(kThird, 't')), HOLDFAST_OK) << holdfast_error();
  }

  /// Returns whether the value has this size and consists of one of these letters, repeated.
  bool is_whole(const std::string& key, std::size_t size, std::string_view letters) {
    std::string bytes(size, '\0');
    holdfast_value got{};
    got.data = bytes.data();
    got.capacity = bytes.size();
    return holdfast_get(dict.handle, key.data(), key.size(), &got) == HOLDFAST_OK && got.size == size &&
           letters.find(bytes[0]) != std::string_view::npos && bytes == std::string(size, bytes[0]);
  }
};

TEST_F(LargeValueTest, a_list_can_have_nodes_beyond_the_blocks_of_a_usual_arena) {
  fill_the_beginning();
  EXPECT_EQ(dict.push("list", HOLDFAST_RIGHT, "b"), 1);
  EXPECT_EQ(dict.push("list", HOLDFAST_RIGHT, "c"), 2);
  EXPECT_EQ(dict.push("list", HOLDFAST_LEFT, "a"), 3);
  const ListEnds ends = place_of("list").view.list_ends();
  EXPECT_GT(ends.first, kUsualBlocks);
  EXPECT_GT(ends.last, kUsualBlocks);
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(place_of("list").view.list_ends().last, ends.last);
  EXPECT_EQ(dict.pop("list", HOLDFAST_RIGHT), text("c"));
  EXPECT_EQ(dict.pop("list", HOLDFAST_LEFT), text("a"));
  EXPECT_EQ(dict.pop("list", HOLDFAST_RIGHT), text("b"));
  EXPECT_EQ(dict.llen("list"), 0);
}

TEST_F(LargeValueTest, a_lock_beyond_the_blocks_of_a_usual_arena_is_released_by_its_lease) {
  fill_the_beginning();
  for (int round = 0; round < 3; ++round) {
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock("lock", 10, &lease), HOLDFAST_OK);
    EXPECT_GT(place_of("lock").block, kUsualBlocks);
    holdfast_lease other{};
    EXPECT_EQ(dict.try_lock("lock", 10, &other), HOLDFAST_LOCKED);
    ASSERT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_NOT_OWNER);
  }
}

// During most of a store, the mutex is held for the copy.
TEST_F(LargeValueTest, a_death_during_a_store_leaves_the_old_value_or_the_new_one) {
  ASSERT_EQ(dict.set("k", std::string(kThird, 'a')), HOLDFAST_OK);
  ASSERT_EQ(dict.set("other", "o"), HOLDFAST_OK);
  for (int round = 0; round < 3; ++round) {
    Child storing([this](Channel& parent) {
      const std::string values[] = {std::string(kThird, 'a'), std::string(kThird, 'b')};
      parent.say("begins");
      for (int i = 0;; ++i)
        if (dict.set("k", values[i % 2]) != HOLDFAST_OK) return 1;
    });
    ASSERT_EQ(storing.hear(), "begins");
    const Word64& word = shard().header().mutex.word;
    ASSERT_TRUE(eventually([&word] { return word.load() != 0; }));
    storing.kill_and_wait();
    EXPECT_TRUE(is_whole("k", kThird, "ab"));
    EXPECT_EQ(dict.get("other"), text("o"));
    EXPECT_EQ(dict.set("after", "a"), HOLDFAST_OK);
  }
  EXPECT_GE(dict.stats().repairs, 1U) << "no process died during a change";
}

// In a dictionary of this size, a mark counts units of several pages.
TEST_F(LargeValueTest, an_overwritten_mark_of_larger_units_does_no_harm) {
  const std::string name = new_name();
  const Options options{.size = 80U << 20, .largest = 40U << 20};
  Dict larger(name, options);
  ASSERT_EQ(larger.set("k", std::string(kThird, 'a')), HOLDFAST_OK) << holdfast_error();
  Shard& shard = larger.segment().shards()[0];
  ASSERT_GT(ReservedMark::unit(shard.all_granules()), ReservedMark::kGranulesPerPage);
  Word32& mark = shard.header().reserved();
  const std::uint32_t right = mark.load();
  for (const std::uint32_t word : {0U, ~0U, 0xDEADBEEFU, right + 1, ReservedMark::of_units(1),
                                   ReservedMark::of_units((1U << ReservedMark::kUnitBits) - 1)}) {
    mark.store(word);
    in_process([&] {
      Dict own(name, options);
      EXPECT_EQ(own.set("small", "s"), HOLDFAST_OK) << word;
      EXPECT_EQ(own.get("small"), text("s")) << word;
    });
    EXPECT_EQ(larger.set("small", "t"), HOLDFAST_OK) << word;
    EXPECT_EQ(larger.flush_expired(), 0) << word;
  }
  EXPECT_EQ(larger.get("small"), text("t"));
  EXPECT_EQ(check_segment(larger.segment()), "");
  holdfast_remove(name.data(), name.size());
}

TEST_F(LargeValueTest, no_word_of_the_shards_header_makes_a_call_crash_or_hang) {
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  fill_the_beginning();
  auto* const words = reinterpret_cast<Word32*>(&shard().header());
  for (int round = 0; round < 40; ++round) {
    const std::size_t at = 16 + random() % (sizeof(ShardHeader) / 4 - 16);  // after the mutex
    words[at].store(static_cast<std::uint32_t>(random() % 2 == 0 ? random() : random() % shard().all_granules()));
    holdfast_lease lease{};
    for (int i = 0; i < 4; ++i) {
      EXPECT_NE(dict.set("small", std::string(random() % 3000, 's')), HOLDFAST_CORRUPT) << at;
      EXPECT_NE(dict.push("list", i % 2, "element"), -HOLDFAST_CORRUPT) << at;
      EXPECT_NE(dict.pop("list", i % 2).code, HOLDFAST_CORRUPT) << at;
      if (dict.try_lock("lock", 10, &lease) == HOLDFAST_OK) {
        EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK) << at;
      }
    }
    dict.flush_expired();
    repair(shard());
  }
}

}  // namespace
}  // namespace holdfast::test
