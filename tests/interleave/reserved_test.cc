// Tests processes that are held or killed while they reserve memory that other processes also need.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kSize = 2U << 20;  // two shards, whose memory is reserved on first use
constexpr int kKeys = 2000;

std::string key(int i) { return "key " + std::to_string(i); }
const std::string kValue(100, 'v');

int found(Dict& dict, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += dict.get(key(i)) == text(kValue) ? 1 : 0;
  return found;
}

/// A failpoint, and whether a process that is held there has the mutex.
struct Place {
  const char* failpoint;
  bool inside;
  friend std::ostream& operator<<(std::ostream& out, const Place& place) { return out << place.failpoint; }
};

class InterleaveReserved : public testing::TestWithParam<Place> {
 protected:
  /// Stores keys. Is held at the failpoint.
  static int fill(Channel& parent, const char* failpoint) {
    Dict dict("d", {.size = kSize});
    dict.set(key(0), kValue);
    pause_at(failpoint, parent);
    for (int i = 1; i < kKeys; ++i)
      if (dict.set(key(i), kValue) != HOLDFAST_OK) parent.say(holdfast_error());
    parent.say("stored " + std::to_string(found(dict, kKeys)));
    parent.hear();
    return 0;
  }
  /// Checks that the dictionary is valid, and that keys can be read, changed and added.
  static void use(int repairs) {
    in_process([&] {
      Dict dict("d", {.size = kSize});
      EXPECT_EQ(dict.get(key(0)), text(kValue));
      for (int i = 0; i < kKeys; ++i) ASSERT_EQ(dict.set(key(i), kValue), HOLDFAST_OK) << holdfast_error();
      EXPECT_EQ(found(dict, kKeys), kKeys);
      EXPECT_EQ(dict.flush_expired(), 0);
      EXPECT_EQ(dict.stats().repairs, static_cast<std::uint64_t>(repairs));
      EXPECT_EQ(dict.stats().evictions, 0U);
    });
  }
  const ScratchDirectory directory_;
  Started living_{"in the world", [](Channel& parent) {
                    const Dict dict("d", {.size = kSize});  // keeps the dictionary alive
                    parent.say("in the world");
                    parent.hear();
                    return 0;
                  }};
};

TEST_P(InterleaveReserved, a_process_that_dies_at_a_failpoint_leaves_everything_usable) {
  const char* const at = GetParam().failpoint;
  Started dying(std::string("at ") + at, [&](Channel& parent) { return fill(parent, at); });
  dying.kill_and_wait();
  use(GetParam().inside ? 1 : 0);
}

TEST_P(InterleaveReserved, a_held_process_agrees_with_processes_that_continue) {
  const char* const at = GetParam().failpoint;
  Started slow(std::string("at ") + at, [&](Channel& parent) { return fill(parent, at); });
  if (GetParam().inside) {
    in_process([] {
      Dict dict("d", {.size = kSize});
      EXPECT_EQ(found(dict, 10), 10) << "readers must not wait for the held process";
    });
  } else {
    use(0);
  }
  EXPECT_EQ(slow.ask("go on"), "stored " + std::to_string(kKeys));
  use(0);
}

INSTANTIATE_TEST_SUITE_P(, InterleaveReserved,
                         testing::Values(Place{"shard.reserved", false}, Place{"shard.grown", false},
                                         Place{"shard.marked", true}));

}  // namespace
}  // namespace holdfast::test
