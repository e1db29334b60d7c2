// Tests that the audit of a whole shard finds damage that no operation notices, and finds nothing in an intact shard.
#include "dict/repair.h"

#include <random>

#include "support/dict.h"
#include "support/shard_check.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

void do_something(Dict& dict, std::mt19937_64& random, Waiting& waiting) {
  const std::string key = "key " + std::to_string(random() % 12);
  holdfast_lease lease{};
  switch (random() % 9) {
    case 0:
      dict.set(key, std::string(random() % 400, 'v'), random() % 4 == 0 ? 0.001 : 0);
      break;
    case 1:
      dict.push(key, static_cast<int>(random() % 2), std::string(random() % 80, 'e'));
      break;
    case 2:
      dict.pop(key, static_cast<int>(random() % 2));
      break;
    case 3:
      dict.remove(key);
      break;
    case 4:
      if (dict.try_lock(key, 0.01, &lease) == HOLDFAST_OK) dict.explain(key, lease, "why");
      if (random() % 2 == 0) dict.unlock(key, &lease);
      break;
    case 5:
      dict.try_permits(key, HOLDFAST_SEMAPHORE, 1, 5, 0.01, &lease);
      if (random() % 2 == 0) dict.unlock(key, &lease);
      break;
    case 6:
      waiting.once(dict, key, &lease, 0.01);
      waiting.leave(dict, key);
      break;
    case 7:
      if (random() % 20 == 0) dict.flush_all();
      break;
    default:
      dict.flush_expired();
  }
}

TEST(audit, finds_nothing_in_an_intact_shard) {
  in_a_world([] {
    Dict dict("well", {.size = 12288});
    Waiting waiting;
    std::mt19937_64 random(1);
    for (int i = 0; i < 5000; ++i) {
      do_something(dict, random, waiting);
      const Shard& shard = dict.segment().shards().front();
      EXPECT_TRUE(audit(shard, dict.segment().seed())) << "after " << i << ": " << check_shard(shard);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(dict.stats().repairs, 0U);
  });
}

TEST(audit, detects_an_entry_behind_a_lost_link_and_frees_its_memory) {
  in_a_world([] {
    Dict dict("lost", {.size = 12288});
    dict.set("kept", "value");
    const std::uint64_t free = dict.free_space();
    dict.set("lost", std::string(2000, 'v'));
    Segment& segment = dict.segment();
    const Key key("lost", segment.seed());
    segment.shards().front().bucket_of(key.short_hash()).store(0);
    EXPECT_EQ(dict.get("lost"), nothing());
    EXPECT_EQ(dict.stats().repairs, 0U);
    dict.flush_expired();
    EXPECT_EQ(dict.stats().repairs, 1U);
    EXPECT_EQ(check_segment(segment), "");
    EXPECT_GE(dict.free_space(), free);
    dict.flush_expired();
    EXPECT_EQ(dict.stats().repairs, 1U) << "the shard was repaired again although it was intact";
  });
}

TEST(audit, frees_an_entry_that_its_key_does_not_lead_to) {
  in_a_world([] {
    Dict dict("foreign", {.size = 12288});
    dict.set("a key of some length", "value");
    Segment& segment = dict.segment();
    const Shard& shard = segment.shards().front();
    const Key key("a key of some length", segment.seed());
    const std::uint32_t block = shard.bucket_of(key.short_hash()).load();
    shard.key_words(shard.entry(block))->store(0);
    dict.flush_expired();
    EXPECT_EQ(dict.stats().repairs, 1U);
    EXPECT_EQ(dict.stats().entries, 0U);
    EXPECT_EQ(dict.keys().size(), 0U);
    EXPECT_EQ(check_segment(segment), "");
  });
}

TEST(audit, does_not_mistake_long_keys_for_misplaced_ones) {
  in_a_world([] {
    Dict dict("long", {.size = 1 << 20});
    for (const std::size_t length : {511U, 512U, 513U, 1024U, 5000U, 65535U})
      EXPECT_EQ(dict.set(std::string(length, 'k'), "value"), HOLDFAST_OK);
    EXPECT_EQ(dict.flush_expired(), 0);
    EXPECT_EQ(dict.stats().repairs, 0U);
    EXPECT_EQ(dict.stats().entries, 6U);
  });
}

}  // namespace
}  // namespace holdfast::test
