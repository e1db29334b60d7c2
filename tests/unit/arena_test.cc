// Tests a shard's arena in private memory.
#include "dict/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "support/dict_test.h"
#include "support/private_shard.h"

namespace holdfast::test {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  PrivateShard memory{65536};
  Shard& shard = memory.shard();
  Arena arena{shard};
  std::uint32_t all = shard.granules() - 1;
};

/// Returns the number of free blocks.
int free_blocks(const Shard& shard) {
  int count = 0;
  for (const Word32& bin : shard.header().bins)
    for (std::uint32_t block = bin.load(); block != 0; block = shard.words32(block)[1].load()) ++count;
  return count;
}

TEST_F(ArenaTest, begins_as_a_single_block) {
  EXPECT_EQ(shard.header().free_granules.load(), all);
  EXPECT_EQ(free_blocks(shard), 1);
  EXPECT_EQ(arena.allocate(all + 1), 0U);
  EXPECT_FALSE(arena.damaged()) << "a lack of memory is not damage";
  const std::uint32_t block = arena.allocate(all);
  EXPECT_EQ(block, 1U);
  EXPECT_EQ(arena.allocate(1), 0U);
  arena.release(block, all);
  EXPECT_EQ(check_shard(shard), "");
}

TEST_F(ArenaTest, a_freed_block_joins_its_free_neighbours) {
  // Frees three neighbours and the rest of the memory in every possible order.
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::uint32_t blocks[4];
    const std::uint32_t sizes[4] = {3, 70, 1, all - 74};
    for (int i = 0; i < 4; ++i) ASSERT_NE(blocks[i] = arena.allocate(sizes[i]), 0U);
    for (const int i : order) arena.release(blocks[i], sizes[i]);
    ASSERT_EQ(free_blocks(shard), 1);
    ASSERT_EQ(check_shard(shard), "");
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ArenaTest, a_run_is_found_wherever_it_is) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t i = 0; i + 200 <= all; i += 200) blocks.push_back(arena.allocate(200));
  for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) arena.release(blocks[i], 200);
  EXPECT_EQ(arena.allocate(201), 0U) << "the free memory consists of runs of 200";
  for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) EXPECT_NE(arena.allocate(200), 0U);
}

TEST_F(ArenaTest, a_long_block_is_found_among_shorter_ones_of_its_bin) {
  // Runs of 64 to 79 granules share a bin.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> blocks;
  for (const std::uint32_t size : {79U, 64U, 65U, 66U}) {
    blocks.emplace_back(arena.allocate(size), size);
    arena.allocate(1);
  }
  while (arena.allocate(40) != 0) {
  }
  while (arena.allocate(1) != 0) {
  }
  for (const auto& [block, size] : blocks) arena.release(block, size);
  EXPECT_EQ(arena.allocate(80), 0U);
  EXPECT_EQ(arena.allocate(79), blocks[0].first);
  EXPECT_FALSE(arena.damaged());
}

TEST_F(ArenaTest, a_kept_block_is_used_only_by_the_next_allocation_of_its_size) {
  const std::uint32_t block = arena.allocate(5);
  ASSERT_NE(arena.allocate(1), 0U);
  const std::uint32_t free = shard.header().free_granules.load();
  arena.keep(block, 5);
  EXPECT_EQ(shard.header().free_granules.load(), free + 5);
  const std::uint32_t other = arena.allocate(4);
  EXPECT_NE(other, block);
  EXPECT_EQ(arena.allocate(5), block);
  arena.release(other, 4);
  EXPECT_EQ(shard.header().free_granules.load(), free);
  EXPECT_NE(arena.allocate(5), block) << "the kept block was allocated twice";
  EXPECT_FALSE(arena.damaged());
  EXPECT_EQ(free_blocks(shard), 1);
}

TEST_F(ArenaTest, a_kept_block_counts_as_free) {
  const std::uint32_t block = arena.allocate(all);
  arena.keep(block, all);
  EXPECT_EQ(check_shard(shard), "");
  arena.settle();
  EXPECT_EQ(check_shard(shard), "");
  EXPECT_EQ(free_blocks(shard), 1);
}

TEST_F(ArenaTest, a_kept_block_joins_its_neighbours_when_another_is_kept_or_memory_is_short) {
  const std::uint32_t first = arena.allocate(3);
  const std::uint32_t second = arena.allocate(70);
  ASSERT_NE(arena.allocate(all - 73), 0U);
  arena.keep(first, 3);
  arena.keep(second, 70);
  EXPECT_TRUE(arena.can_allocate(73));
  EXPECT_EQ(arena.allocate(73), first);
  EXPECT_EQ(arena.allocate(1), 0U);
  arena.keep(first, 73);
  EXPECT_EQ(arena.allocate(1), first) << "if memory is short, the kept block is split";
  EXPECT_FALSE(arena.damaged());
}

TEST_F(ArenaTest, random_work_never_allocates_memory_twice_and_never_loses_any) {
  const std::uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  std::map<std::uint32_t, std::uint32_t> held;  // block to size
  for (int step = 0; step < 100000; ++step) {
    if (random() % 2 == 0) {
      const std::uint32_t size = 1 + static_cast<std::uint32_t>(random() % 8 == 0 ? random() % 400 : random() % 12);
      const std::uint32_t block = arena.allocate(size);
      ASSERT_FALSE(arena.damaged());
      if (block == 0) continue;
      const auto next = held.upper_bound(block);
      ASSERT_LE(block + size, next == held.end() ? shard.granules() : next->first);
      ASSERT_TRUE(next == held.begin() || std::prev(next)->first + std::prev(next)->second <= block);
      // The arena must not depend on the content that a block's owner writes into it.
      for (std::uint32_t i = 0; i < size * 4; ++i) shard.words32(block)[i].store(static_cast<std::uint32_t>(random()));
      held[block] = size;
    } else if (!held.empty()) {
      auto victim = held.lower_bound(static_cast<std::uint32_t>(random() % shard.granules()));
      if (victim == held.end()) victim = held.begin();
      if (random() % 2 == 0)
        arena.release(victim->first, victim->second);
      else
        arena.keep(victim->first, victim->second);
      ASSERT_FALSE(arena.damaged());
      held.erase(victim);
    }
  }
  arena.settle();
  for (const auto& [block, size] : held) arena.release(block, size);
  EXPECT_FALSE(arena.damaged());
  EXPECT_EQ(check_shard(shard), "");
  EXPECT_EQ(free_blocks(shard), 1);
}

TEST_F(ArenaTest, freeing_announces_the_reuse) {
  const std::uint32_t block = arena.allocate(4);
  const std::uint64_t before = shard.header().reuse_epoch.load();
  arena.release(block, 4);
  EXPECT_GT(shard.header().reuse_epoch.load(), before);
}

TEST_F(ArenaTest, keeping_announces_the_reuse) {
  const std::uint32_t block = arena.allocate(4);
  const std::uint64_t before = shard.header().reuse_epoch.load();
  arena.keep(block, 4);
  EXPECT_GT(shard.header().reuse_epoch.load(), before);
}

TEST_F(ArenaTest, an_inconsistent_kept_block_counts_as_damage_and_is_not_allocated) {
  const auto expect_damage = [](auto&& overwrite) {
    PrivateShard fresh(65536);
    Arena fresh_arena(fresh.shard());
    const std::uint32_t block = fresh_arena.allocate(50);
    fresh_arena.keep(block, 50);
    overwrite(fresh.shard(), block);
    EXPECT_EQ(fresh_arena.allocate(50), 0U);
    EXPECT_TRUE(fresh_arena.damaged());
  };
  for (int word = 0; word < 3; ++word)
    for (const std::uint32_t value : {1U, 77U, 0x7FFFFFFFU, 0xFFFFFFFFU})
      expect_damage([&](const Shard& at, std::uint32_t block) { at.words32(block)[word].store(value); });
  for (const std::uint32_t value : {1U << 20, 0xFFFFFFFFU, 51U})
    expect_damage([&](const Shard& at, std::uint32_t) { at.header().bins[kSpareBin].store(value); });
}

TEST_F(ArenaTest, inconsistent_free_blocks_count_as_damage_and_are_not_allocated) {
  for (int word = 0; word < 3; ++word) {
    for (const std::uint32_t value : {0U, 1U, 77U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
      PrivateShard fresh(65536);
      Arena fresh_arena(fresh.shard());
      const std::uint32_t first = fresh_arena.allocate(50);
      fresh_arena.allocate(1);
      fresh_arena.release(first, 50);
      fresh.shard().words32(first)[word].store(value);
      const std::uint32_t block = fresh_arena.allocate(50);
      const bool harmless = value == 0 && word != 0;
      EXPECT_EQ(fresh_arena.damaged(), !harmless) << "word " << word << " = " << value;
      EXPECT_EQ(block != 0, harmless);
    }
  }
}

TEST_F(ArenaTest, freeing_a_block_next_to_an_inconsistent_free_block_reports_damage) {
  for (const std::uint32_t value : {0U, 2U, 4U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    PrivateShard fresh(65536);
    Arena fresh_arena(fresh.shard());
    const std::uint32_t left = fresh_arena.allocate(3);
    const std::uint32_t right = fresh_arena.allocate(5);
    fresh_arena.allocate(1);
    fresh_arena.release(left, 3);
    fresh.shard().words32(right)[-1].store(value);
    fresh_arena.release(right, 5);
    EXPECT_TRUE(fresh_arena.damaged()) << value;
  }
}

}  // namespace
}  // namespace holdfast::test
