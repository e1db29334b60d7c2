#include "lock/look_interval.h"

#include <gtest/gtest.h>

namespace holdfast::test {
namespace {

constexpr int kMany = 20;  // looks, more than it takes to learn

/// The interval after many looks, during each of which `sections(pauses)` were begun.
template <class Sections>
int learned(LookInterval& interval, Sections&& sections) {
  for (int look = 0; look < kMany; ++look) interval.note(sections(interval.pauses()), interval.pauses());
  return interval.pauses();
}

TEST(look_interval, is_long_where_sections_are_over_at_once) {
  LookInterval interval;
  EXPECT_EQ(interval.pauses(), LookInterval::kLeast);
  EXPECT_EQ(learned(interval, [](int pauses) { return static_cast<std::uint32_t>(pauses) / 2; }), LookInterval::kMost);
}

TEST(look_interval, is_short_where_a_section_lasts) {
  LookInterval interval;
  learned(interval, [](int pauses) { return static_cast<std::uint32_t>(pauses); });
  EXPECT_EQ(learned(interval, [](int) { return 0U; }), LookInterval::kLeast);
}

// A microsecond: an end that is missed costs a section. The interval must not grow until each look misses many.
TEST(look_interval, stays_short_where_sections_last_longer_than_a_look) {
  LookInterval interval;
  constexpr int kSection = 40;
  int passed = 0;
  const auto sections = [&](int pauses) {
    const int before = passed / kSection;
    passed += pauses;
    return static_cast<std::uint32_t>(passed / kSection - before);
  };
  for (int look = 0; look < 1000; ++look) {
    interval.note(sections(interval.pauses()), interval.pauses());
    ASSERT_LT(interval.pauses(), kSection) << "look " << look;
  }
}

// The turn of another lock, at a place that was used again, says anything.
TEST(look_interval, stays_within_its_bounds_whatever_it_is_told) {
  LookInterval interval;
  for (const std::uint32_t sections : {0U, 1U, 0x1FFFFFFFU, 0x20000000U, 0xFFFFFFFFU}) {
    learned(interval, [&](int) { return sections; });
    EXPECT_GE(interval.pauses(), LookInterval::kLeast);
    EXPECT_LE(interval.pauses(), LookInterval::kMost);
  }
}

}  // namespace
}  // namespace holdfast::test
