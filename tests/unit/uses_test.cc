// Tests the counts of uses. Readers increment these bytes without a lock, so no other data may share their memory.
#include <gtest/gtest.h>

#include <string>

#include "support/dict.h"
#include "support/private_shard.h"
#include "support/process.h"

namespace holdfast::test {
namespace {

const ScratchDirectory directory;

constexpr std::uint64_t kSizes[] = {12288, 16384, 65536, 1 << 20, 2 << 20, 3 << 20, 100 << 20};

TEST(uses, the_counts_of_all_granules_are_between_the_free_bits_and_the_arena) {
  for (const std::uint64_t size : kSizes) {
    PrivateShard one(size);
    const Shard& shard = one.shard();
    auto* first = reinterpret_cast<std::byte*>(&shard.uses(0));
    auto* last = reinterpret_cast<std::byte*>(&shard.uses(shard.granules() - 1));
    auto* end_of_bits = reinterpret_cast<std::byte*>(shard.free_bits() + (shard.granules() + 63) / 64);
    EXPECT_GE(first, end_of_bits) << size;
    EXPECT_LT(last, reinterpret_cast<std::byte*>(shard.words32(0))) << size;
  }
}

TEST(uses, touching_a_granule_changes_only_its_count) {
  for (const std::uint64_t size : {kSizes[0], kSizes[2], kSizes[4]}) {
    PrivateShard one(size);
    const Shard& shard = one.shard();
    const std::string before(reinterpret_cast<char*>(one.bytes()), one.size());
    for (std::uint32_t block = 1; shard.holds_header(block); ++block) shard.touch(block);
    const std::string after(reinterpret_cast<char*>(one.bytes()), one.size());
    const auto first = static_cast<std::size_t>(reinterpret_cast<std::byte*>(&shard.uses(0)) - one.bytes());
    const std::size_t count = shard.granules() / kGranulesPerUses + 1;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i >= first && i < first + count) continue;
      ASSERT_EQ(before[i], after[i]) << "byte " << i << " of a shard of " << size;
    }
  }
}

TEST(uses, a_count_grows_to_its_maximum_and_stays_there) {
  PrivateShard one(65536);
  for (int i = 0; i < 300; ++i) one.shard().touch(100);
  EXPECT_EQ(one.shard().uses(100).load(), Shard::kUsesMax);
  EXPECT_EQ(one.shard().uses(100 + kGranulesPerUses).load(), 0);
  one.shard().uses(100).store(200);  // above the maximum, as if overwritten
  one.shard().touch(100);
  EXPECT_EQ(one.shard().uses(100).load(), 200);
}

TEST(uses, every_kind_of_use_is_counted_and_a_walk_is_not) {
  Dict dict("uses");
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  dict.set("k", "v");
  dict.set_number("n", 1);
  Shard& shard = dict.segment().shards().front();
  const auto uses_of = [&](const std::string& name) -> Word8& {
    Position position{};
    EXPECT_TRUE(shard.find(Key(name, dict.segment().seed()), position));
    EXPECT_NE(position.block, 0U);
    return shard.uses(position.block);
  };
  const auto counts = [&](const std::string& name, const auto& use) {
    uses_of(name).store(0);
    use();
    return uses_of(name).load() != 0;
  };
  double sum = 0;
  bool stale = false;
  EXPECT_TRUE(counts("k", [&] { dict.get("k"); }));
  EXPECT_TRUE(counts("k", [&] { dict.get_stale("k", &stale); }));
  EXPECT_TRUE(counts("k", [&] { dict.set("k", "w"); }));
  EXPECT_TRUE(counts("n", [&] { dict.set_number("n", 2); }));
  EXPECT_TRUE(counts("n", [&] { dict.incr("n", 2, &sum); }));
  EXPECT_FALSE(counts("k", [&] { dict.get("missing"); }));
  EXPECT_FALSE(counts("k", [&] { dict.keys(); }));
  EXPECT_FALSE(counts("k", [&] { dict.scan_all(10); }));
  EXPECT_FALSE(counts("k", [&] { dict.stats(); }));
  dict.set("new", "v");
  EXPECT_EQ(uses_of("new").load(), 0) << "a newly stored entry must count as unused";
}

}  // namespace
}  // namespace holdfast::test
