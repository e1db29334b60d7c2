// A fixture with a dictionary that is checked and removed after each test. When the dictionary is opened, the test
// process enters a world, which all tests of the program share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "support/clock.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/shard_check.h"
#include "support/started.h"

namespace holdfast::test {

inline const ScratchDirectory directory;

/// Returns a new dictionary name on each call.
inline std::string new_name() {
  static int count = 0;
  return "dictionary-" + std::to_string(++count);
}

/// Returns and prints the seed of the random choices. $HOLDFAST_TEST_SEED sets the seed.
inline std::uint64_t seed_of_run() {
  const char* given = std::getenv("HOLDFAST_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// A process that holds the mutex of the first shard until it gets a line. Then the process releases the mutex, reports
/// "outside" and ends.
class Inside : public Started {
 public:
  explicit Inside(Dict& dict)
      : Started("inside", [&dict](Channel& parent) {
          Shmtx& mutex = dict.segment().shards()[0].mutex();
          if (mutex.lock_for(kNsPerSecond) != LockResult::acquired) return 1;
          parent.say("inside");
          parent.hear();
          mutex.unlock();
          parent.say("outside");
          return 0;
        }) {}
};

class DictTest : public ::testing::Test {
 protected:
  explicit DictTest(const Options& options = {}) : dict(dict_name, options) {}

  void SetUp() override { ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error(); }
  void TearDown() override {
    EXPECT_NE(dict.dictionary().segment(EpochGuard()), nullptr) << "removed";
    if (dict.dictionary().segment(EpochGuard()) != nullptr) {
      EXPECT_EQ(check_segment(dict.segment()), "");
    }
    holdfast_remove(dict_name.data(), dict_name.size());
  }

  Shard& shard() { return dict.segment().shards()[0]; }
  ShardHeader& header() { return shard().header(); }
  /// REQUIRES: the key is in the first shard.
  Position place_of(std::string_view key) {
    Position position{};
    EXPECT_TRUE(shard().find(Key(key, dict.segment().seed()), position));
    EXPECT_NE(position.block, 0U) << key;
    return position;
  }

  const std::string dict_name = new_name();
  Dict dict;
};

}  // namespace holdfast::test
