// Measures how much of a segment an entry takes, which is the segment's size divided by the number of entries at the
// first eviction.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "support/dict.h"
#include "support/process.h"

namespace holdfast::test {
namespace {

const ScratchDirectory directory;

// Several dictionaries of this size fit into a /dev/shm of 64 MB, together with other tests.
constexpr std::uint64_t kSize = 16U << 20;

class MemoryTest : public ::testing::Test {
 protected:
  static constexpr int kRounds = 16;

  static std::string key(std::uint64_t i) { return std::to_string(100'000'000 + i); }

  /// Returns the average number of bytes of the segment for each entry that `set(i, forcible)` stores. A round ends at
  /// the first eviction, which happens when any shard is full. In each dictionary, keys are distributed over the shards
  /// differently, so the result is an average over many rounds.
  template <class Set>
  static double bytes_per_entry(Set&& set) {
    std::uint64_t count = 0;
    for (int round = 0; round < kRounds; ++round) count += fill(set);
    return static_cast<double>(kSize * kRounds) / static_cast<double>(count);
  }

  template <class Set>
  static std::uint64_t fill(Set&& set) {
    const std::string name = "memory";
    const Dict dict(name, {.size = kSize});
    EXPECT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    int forcible = 0;
    std::uint64_t count = 0;
    while (set(dict.handle, count, &forcible) == HOLDFAST_OK && forcible == 0) ++count;
    EXPECT_NE(forcible, 0) << holdfast_error();
    holdfast_remove(name.data(), name.size());
    return count;
  }

  static double bytes_per_string(std::size_t size) {
    const std::string value(size, 'v');
    return bytes_per_entry([&](holdfast_dict* dict, std::uint64_t i, int* forcible) {
      const std::string name = key(i);
      return holdfast_store(dict, HOLDFAST_SET, name.data(), name.size(), HOLDFAST_STRING, value.data(), value.size(),
                            0, 0, 0, forcible);
    });
  }
};

TEST_F(MemoryTest, a_number_under_a_key_of_nine_bytes_takes_at_most_72_bytes) {
  const double bytes = bytes_per_entry([&](holdfast_dict* dict, std::uint64_t i, int* forcible) {
    const std::string name = key(i);
    EXPECT_EQ(name.size(), 9U);
    return holdfast_store(dict, HOLDFAST_SET, name.data(), name.size(), HOLDFAST_NUMBER, nullptr, 0, 1.5, 0, 0,
                          forcible);
  });
  std::printf("%.1f bytes\n", bytes);
  EXPECT_LE(bytes, 72.0);
}

class StringMemoryTest : public MemoryTest, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(StringMemoryTest, a_string_takes_at_most_a_quarter_more_than_itself_and_48_bytes) {
  const double bytes = bytes_per_string(GetParam());
  const double limit = 1.25 * static_cast<double>(9 + GetParam()) + 48;
  std::printf("%zu bytes of string: %.1f bytes, limit %.1f\n", GetParam(), bytes, limit);
  EXPECT_LE(bytes, limit);
}

// An entry with a string of 113 or 1009 bytes needs one more granule, because of its last byte.
INSTANTIATE_TEST_SUITE_P(sizes, StringMemoryTest, ::testing::Values(100, 113, 200, 500, 1000, 1009, 1500, 2000));

}  // namespace
}  // namespace holdfast::test
