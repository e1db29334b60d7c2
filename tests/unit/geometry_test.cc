// Tests how a segment is divided, for every possible size.
#include "dict/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "base/parse.h"
#include "dict/layout.h"
#include "dict/reserved.h"

namespace holdfast {
namespace {

void check(const Geometry& g, std::uint64_t size) {
  SCOPED_TRACE("size " + std::to_string(size) + ", shards " + std::to_string(g.shards));
  ASSERT_TRUE(Geometry::is_possible(size, g.shards));
  ASSERT_EQ(g.size, round_size(size));
  ASSERT_TRUE(std::has_single_bit(g.shards));
  ASSERT_TRUE(std::has_single_bit(g.buckets));
  ASSERT_EQ(g.shard_bytes % 64, 0U);
  ASSERT_GE(g.shards_at, kHeaderBytes + (g.reserved_as_used() ? g.shards : 0))
      << "the header has no byte for one of the shards";
  ASSERT_LE(g.shards_at + g.shards * g.shard_bytes, g.size);
  ASSERT_LT(g.size - g.shards_at - g.shards * g.shard_bytes, g.shards * 64U) << "too much memory is unused";

  // Header, buckets, free bits and arena follow one another without overlap.
  ASSERT_GE(g.free_bits_at, sizeof(ShardHeader) + std::uint64_t{g.buckets} * 4);
  ASSERT_EQ(g.free_bits_at % 8, 0U);
  ASSERT_GE(g.arena_at, g.free_bits_at + (g.granules + 63) / 64 * 8);
  ASSERT_EQ(g.arena_at % kGranule, 0U);
  ASSERT_LE(g.arena_at + std::uint64_t{g.granules} * kGranule, g.shard_bytes);
  ASSERT_GT(std::uint64_t{g.granules} * kGranule, g.shard_bytes / 3 * 2)
      << "the arena is too small a part of the shard";
  ASSERT_GE(g.block_max(), granules_for(64, 64));
  ASSERT_EQ(ReservedMark::granules_of(ReservedMark::of(g.granules, g.granules), g.granules), g.granules);
}
void check(std::uint64_t size) { check(Geometry::of(size), size); }

TEST(geometry, every_part_is_inside_its_shard_and_every_shard_inside_the_segment) {
  for (std::uint64_t size = kSizeMin; size < (8U << 20); size += 4096) check(size);
  for (std::uint64_t size = kSizeMin; size < kSizeMax; size = size * 9 / 8 + 1) check(size);
  check(kSizeMax);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) check(kSizeMin + random() % ((kSizeMax - kSizeMin) >> random() % 33));
}

TEST(geometry, sizes_are_rounded_up_to_whole_pages) {
  EXPECT_EQ(round_size(1), 4096U);
  EXPECT_EQ(round_size(12288), 12288U);
  EXPECT_EQ(round_size(12289), 16384U);
  EXPECT_EQ(Geometry::of(12289).size, 16384U);
}

TEST(geometry, a_larger_segment_never_has_a_smaller_largest_value_or_less_room) {
  std::uint64_t room = 0;
  for (std::uint64_t size = kSizeMin; size < (64U << 20); size += 4096) {
    const Geometry g = Geometry::of(size);
    const std::uint64_t now = std::uint64_t{g.granules} * g.shards;
    ASSERT_GE(now + now / 16 + 64, room) << size;
    room = now;
  }
}

TEST(geometry, small_dictionaries_have_one_shard_and_large_ones_many) {
  EXPECT_EQ(Geometry::of(kSizeMin).shards, 1U);
  EXPECT_EQ(Geometry::of(1 << 20).shards, 1U);
  EXPECT_EQ(Geometry::of(8 << 20).shards, 8U);
  EXPECT_EQ(Geometry::of(64 << 20).shards, 64U);
  EXPECT_EQ(Geometry::of(std::uint64_t{8} << 30).shards, 8192U);
  EXPECT_EQ(Geometry::of(kSizeMax).shards, 65536U);
}

TEST(geometry, a_dictionary_for_large_values_has_as_few_shards_as_needed_and_no_fewer) {
  for (std::uint64_t size = kSizeMin; size < kSizeMax; size = size * 9 / 8 + 1) {
    for (std::uint64_t largest = 1; largest < size; largest = largest * 3 / 2 + 1) {
      const Geometry g = Geometry::for_values(size, largest);
      check(g, size);
      if (g.shards == Geometry::of(size).shards) continue;
      ASSERT_LT(Geometry::of(size, g.shards * 2).value_max(), largest) << size;
      if (Geometry::is_possible(size, g.shards / 2)) {
        ASSERT_GE(g.value_max(), largest) << size;
      }
    }
  }
}

TEST(geometry, a_dictionary_for_large_values_accepts_a_value_of_half_its_size_up_to_4_gb) {
  for (std::uint64_t size = 65536; size < kSizeMax; size = size * 9 / 8 + 1) {
    const std::uint64_t wanted = std::min(size / 2, kValueMax);
    ASSERT_GE(Geometry::for_values(size, wanted).value_max(), wanted) << size;
  }
}

TEST(geometry, a_number_of_shards_must_be_a_power_of_two_that_suits_the_size) {
  for (const std::uint32_t shards : {0U, 3U, 32U, 1U << 31}) EXPECT_FALSE(Geometry::is_possible(16 << 20, shards));
  EXPECT_TRUE(Geometry::is_possible(16 << 20, 16));
  EXPECT_TRUE(Geometry::is_possible(16 << 20, 1));
  EXPECT_TRUE(Geometry::is_possible(std::uint64_t{16} << 30, 1));
  EXPECT_FALSE(Geometry::is_possible(std::uint64_t{17} << 30, 1)) << "a granule's number would not fit into its word";
}

TEST(geometry, a_mark_counts_pages_in_a_usual_arena_and_larger_units_in_a_large_one) {
  for (std::uint64_t size = kSizeMin; size < kSizeMax; size = size * 9 / 8 + 1)
    ASSERT_EQ(ReservedMark::unit(Geometry::of(size).granules), ReservedMark::kGranulesPerPage) << size;
  EXPECT_EQ(ReservedMark::unit(Geometry::of(std::uint64_t{1} << 30, 1).granules), 16 * ReservedMark::kGranulesPerPage);
}

TEST(geometry, a_small_dictionary_is_reserved_completely_and_a_larger_one_without_its_shards) {
  EXPECT_EQ(Geometry::of(1 << 20).reserved_at_first(), 1U << 20);
  EXPECT_EQ(Geometry::of(1 << 20).shards_at, kHeaderBytes);
  EXPECT_EQ(Geometry::of(std::uint64_t{1} << 30).reserved_at_first(), kHeaderBytes + 1024);
  EXPECT_LE(Geometry::of(kSizeMax).reserved_at_first(), kHeaderBytes + 65536);
  EXPECT_EQ(Geometry::of(32 << 20, 1).reserved_at_first(), kHeaderBytes + 64);
}

TEST(geometry, granules_hold_header_key_and_value) {
  EXPECT_EQ(granules_for(1, 8), 3U);
  EXPECT_EQ(granules_for(8, 8), 3U);
  EXPECT_EQ(granules_for(9, 8), 4U);
  EXPECT_EQ(granules_for(65535, 0), (32U + 65536) / 16);
  for (std::uint64_t key = 1; key < 100; ++key)
    for (std::uint64_t value = 0; value < 100; ++value) {
      const std::uint64_t bytes = granules_for(key, value) * kGranule;
      ASSERT_GE(bytes, sizeof(Entry) + padded(key) + padded(value));
      ASSERT_LT(bytes, sizeof(Entry) + padded(key) + padded(value) + kGranule);
    }
}

}  // namespace
}  // namespace holdfast
