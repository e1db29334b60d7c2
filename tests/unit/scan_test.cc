// Tests walks over all keys. Both scan and keys return each key that exists throughout the walk exactly once, whatever
// happens to other keys. dictionary_model_test.cc tests both calls without concurrent changes.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "platform/platform.h"
#include "support/dict_test.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

class ScanTest : public DictTest {
 protected:
  ScanTest() : DictTest({.size = 5 << 20}) {}  // 4 shards

  std::multiset<std::string> put(int count, const std::string& prefix) {
    std::multiset<std::string> names;
    for (int i = 0; i < count; ++i) {
      const std::string name = prefix + std::to_string(i * 7919);
      EXPECT_EQ(dict.set(name, "v"), HOLDFAST_OK);
      names.insert(name);
    }
    return names;
  }
};

TEST_F(ScanTest, a_prefix_of_any_length_is_compared_to_its_last_byte) {
  const std::string key = "0123456789abcdefghij";
  for (std::size_t length = 0; length <= key.size(); ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string other = key.substr(0, length);
      other[at] = static_cast<char>(other[at] ^ 0x80);
      EXPECT_EQ(dict.set(other, "v"), HOLDFAST_OK);
    }
    if (length != 0) {
      EXPECT_EQ(dict.set(key.substr(0, length), "v"), HOLDFAST_OK);
    }
  }
  for (std::size_t length = 1; length <= key.size(); ++length)
    EXPECT_EQ(dict.scan_all(100, key.substr(0, length)).count(key), 1U) << length;
  const std::string prefix = key.substr(0, 13);
  for (const std::string& found : dict.scan_all(100, prefix)) EXPECT_EQ(found.substr(0, 13), prefix);
  // The result is the prefix itself, 7 longer keys, and the keys that differ after the prefix.
  EXPECT_EQ(dict.scan_all(100, prefix).size(), 8U + 1 + 2 + 3 + 4 + 5 + 6 + 7);
}

TEST_F(ScanTest, keys_stay_within_the_given_buffer) {
  for (const std::size_t length : {1, 7, 8, 9, 127, 128, 129, 300})
    ASSERT_EQ(dict.set(std::string(length, 'k'), "v"), HOLDFAST_OK);
  const std::multiset<std::string> expected = dict.keys();
  ASSERT_EQ(expected.size(), 8U);
  std::size_t needed = 0;
  for (const std::string& key : expected) needed += sizeof(std::uint32_t) + key.size();
  for (std::size_t capacity = 0; capacity <= needed + 9; ++capacity) {
    std::string room(capacity + 16, '#');
    holdfast_value keys{};
    keys.data = room.data();
    keys.capacity = capacity;
    std::uint32_t count = 0;
    std::uint64_t cursor = 0;
    const int code = capacity < needed ? HOLDFAST_BUFFER : HOLDFAST_OK;
    for (const bool scan : {false, true}) {
      ASSERT_EQ(scan ? holdfast_scan(dict.handle, &cursor, 1'000'000, "k", 1, &keys, &count)
                     : holdfast_keys(dict.handle, 0, &keys, &count),
                code)
          << capacity;
      ASSERT_EQ(keys.size, needed) << capacity;
      ASSERT_EQ(count, 8U) << capacity;
      ASSERT_EQ(room.substr(capacity), std::string(16, '#')) << capacity;
      ASSERT_EQ(cursor, 0U) << capacity;
    }
  }
}

TEST_F(ScanTest, keys_returns_no_more_than_the_given_limit) {
  put(3000, "k");
  for (const std::uint32_t max : {1U, 2U, 16U, 17U, 1000U, 2999U}) EXPECT_EQ(dict.keys(max).size(), max);
  for (const std::uint32_t max : {0U, 3000U, 3001U, ~0U}) EXPECT_EQ(dict.keys(max).size(), 3000U);
}

TEST_F(ScanTest, one_call_returns_about_as_many_as_requested) {
  put(4000, "k");
  std::uint64_t cursor = 0;
  std::size_t calls = 0;
  do {
    const std::uint64_t before = cursor;
    const std::size_t found = dict.scan(&cursor, 10).size();
    EXPECT_LE(found, 10U + 20U) << "a step may also return the rest of a chain, but no more";
    EXPECT_NE(cursor, before);
    ++calls;
  } while (cursor != 0);
  EXPECT_GE(calls, 4000U / 30);
}

TEST_F(ScanTest, locks_lists_the_locks_that_are_held_or_waited_for) {
  put(100, "value");
  holdfast_lease leases[4] = {};
  ASSERT_EQ(dict.try_lock("free", 0, &leases[0]), HOLDFAST_OK);
  ASSERT_EQ(dict.unlock("free", &leases[0]), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("held", 0, &leases[0]), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("ended", 0.001, &leases[1]), HOLDFAST_OK);
  ASSERT_EQ(holdfast_permits_try(dict.handle, "read", 4, HOLDFAST_RWLOCK, 1, HOLDFAST_ALL_PERMITS, 0, 0, 0, &leases[2]),
            HOLDFAST_OK);
  ASSERT_EQ(holdfast_permits_try(dict.handle, "done", 4, HOLDFAST_SEMAPHORE, 1, 2, 0, 0, 0, &leases[3]), HOLDFAST_OK);
  ASSERT_EQ(dict.unlock("done", &leases[3]), HOLDFAST_OK);
  sleep_ms(5);
  EXPECT_EQ(dict.locks(), (std::multiset<std::string>{"held", "read"}));
  EXPECT_EQ(dict.locks(1), (std::multiset<std::string>{"held", "read"}));
  EXPECT_EQ(dict.locks(10, "he"), (std::multiset<std::string>{"held"}));
}

TEST_F(ScanTest, an_expired_lock_is_listed_while_a_task_waits_for_it) {
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_lock("key", 0.5, &lease), HOLDFAST_OK);
  Waiting waiting;
  holdfast_lease none{};
  ASSERT_EQ(waiting.once(dict, "key", &none), HOLDFAST_LOCKED) << "the lock has not expired after half a second";
  sleep_ms(600);
  EXPECT_EQ(dict.locks(), (std::multiset<std::string>{"key"}));
  EXPECT_EQ(waiting.leave(dict, "key"), HOLDFAST_OK);
  EXPECT_EQ(dict.locks(), (std::multiset<std::string>{}));
}

TEST_F(ScanTest, a_cursor_beyond_the_end_counts_as_the_end) {
  put(100, "k");
  std::uint64_t buckets = 0;
  for (Shard& shard : dict.segment().shards()) buckets += shard.buckets();
  for (const std::uint64_t beyond : {buckets, buckets + 1, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    std::uint64_t cursor = beyond;
    EXPECT_TRUE(dict.scan(&cursor, 10).empty());
    EXPECT_EQ(cursor, 0U);
  }
  std::uint64_t cursor = buckets - 1;
  dict.scan(&cursor, ~0U);
  EXPECT_EQ(cursor, 0U);
}

/// Stores and deletes other keys at random. The keys that begin with "stays" only get new values.
void disturb(Dict& dict, const std::multiset<std::string>& stay, std::mt19937_64& random) {
  const std::string other = "other" + std::to_string(random() % 2000);
  switch (random() % 8) {
    case 0:
      dict.remove(other);
      break;
    case 1:
      dict.expire(other, 0.001);
      break;
    case 2:
      dict.push(other + "list", HOLDFAST_LEFT, "e");
      break;
    case 3:
    case 4:
      dict.store(HOLDFAST_SAFE_SET, *std::next(stay.begin(), static_cast<std::ptrdiff_t>(random() % stay.size())),
                 std::string(random() % 300, 's'), 0, 0);
      break;
    case 5:
      dict.flush_expired(5);
      break;
    default:
      dict.store(HOLDFAST_SAFE_SET, other, std::string(random() % (random() % 50 == 0 ? 5000 : 200), 'o'), 0, 0);
  }
}

/// Returns the number of keys of `stay` that `seen` does not contain exactly once.
std::size_t wrong(const std::multiset<std::string>& stay, const std::multiset<std::string>& seen) {
  std::size_t count = 0;
  for (const std::string& name : stay)
    if (seen.count(name) != 1) ++count;
  return count;
}

TEST_F(ScanTest, a_scan_tolerates_any_change_of_other_keys_between_its_steps) {
  std::mt19937_64 random(seed_of_run());
  const auto stay = put(300, "stays");
  for (int round = 0; round < 8; ++round) {
    std::multiset<std::string> seen;
    std::uint64_t cursor = 0;
    do {
      seen.merge(dict.scan(&cursor, 1 + static_cast<std::uint32_t>(random() % 20)));
      for (int i = 0; i < 20; ++i) disturb(dict, stay, random);
    } while (cursor != 0);
    ASSERT_EQ(wrong(stay, seen), 0U) << "round " << round;
  }
}

TEST_F(ScanTest, walks_return_each_permanent_key_once_while_other_processes_change_the_shards) {
  const std::uint64_t seed = seed_of_run();
  // Tests a large shard, and a shard so small that memory runs short and entries move.
  for (const std::uint64_t size : {std::uint64_t{1} << 20, std::uint64_t{160} << 10}) {
    Dict busy(new_name(), {.size = size});
    ASSERT_EQ(busy.status, HOLDFAST_OK);
    std::multiset<std::string> stay;
    for (int i = 0; i < 200; ++i) stay.insert("stays" + std::to_string(i * 31));
    for (const std::string& name : stay) ASSERT_EQ(busy.set(name, "v"), HOLDFAST_OK);
    std::vector<std::unique_ptr<Child>> writers;
    for (std::uint64_t i = 0; i < 2; ++i) {
      writers.push_back(std::make_unique<Child>([&, i](Channel& channel) {
        std::mt19937_64 random(seed + i);
        disturb(busy, stay, random);
        channel.say("at work");
        for (;;) disturb(busy, stay, random);
        return 0;
      }));
    }
    for (auto& writer : writers) ASSERT_EQ(writer->hear(), "at work");
    std::mt19937_64 random(seed + 9);
    const std::uint64_t end = platform::monotonic_ns() + kNsPerSecond;
    int walks = 0;
    for (; walks < 20 || platform::monotonic_ns() < end; ++walks) {
      ASSERT_EQ(wrong(stay, busy.keys()), 0U) << "keys, walk " << walks;
      ASSERT_EQ(wrong(stay, busy.scan_all(1 + static_cast<std::uint32_t>(random() % 100))), 0U) << "walk " << walks;
      ASSERT_EQ(wrong(stay, busy.scan_all(50, "stays")), 0U) << "walk with a prefix, number " << walks;
    }
    std::printf("%d walks\n", 3 * walks);
  }
}

}  // namespace
}  // namespace holdfast::test
