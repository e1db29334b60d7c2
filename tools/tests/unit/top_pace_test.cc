#include "look/top_pace.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(top_pace, is_two_seconds_or_longer_to_stay_within_one_percent_of_a_processor) {
  TopPace pace(std::nullopt);
  EXPECT_DOUBLE_EQ(pace.delay(), 2);
  pace.note_look(0.5);
  pace.note_look(0.505);
  EXPECT_DOUBLE_EQ(pace.delay(), 2);
  TopPace slow(std::nullopt);
  slow.note_look(1);
  slow.note_look(1.05);
  EXPECT_NEAR(slow.delay(), 5, 1e-9);
  slow.note_look(1000);
  EXPECT_DOUBLE_EQ(slow.delay(), kLongestDelay);
}

TEST(top_pace, is_the_chosen_pace_even_if_refreshes_are_expensive) {
  TopPace pace(0.5);
  pace.note_look(10);
  EXPECT_DOUBLE_EQ(pace.delay(), 0.5);
}

TEST(top_pace, can_be_stretched_within_bounds) {
  TopPace pace(std::nullopt);
  pace.note_look(0.05);
  pace.stretch(0.5);
  EXPECT_NEAR(pace.delay(), 2.5, 1e-9);
  pace.note_look(10);
  EXPECT_NEAR(pace.delay(), 2.5, 1e-9);
  pace.stretch(0.001);
  EXPECT_DOUBLE_EQ(pace.delay(), kShortestDelay);
  pace.stretch(1e9);
  EXPECT_DOUBLE_EQ(pace.delay(), kLongestDelay);
}

}  // namespace
}  // namespace holdfast::cli
