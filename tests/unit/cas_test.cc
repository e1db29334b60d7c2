// Tests compare and swap: what is compared, what is refused, and that only one of many callers succeeds.
// dictionary_model_test.cc tests compare and swap together with other operations.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/dict_test.h"

namespace holdfast::test {
namespace {

Got table(std::string bytes, std::uint32_t flags = 0) {
  return {HOLDFAST_OK, HOLDFAST_TABLE, std::move(bytes), 0, flags};
}

class CasTest : public DictTest {
 protected:
  int cas(std::string_view key, const Got& expected, const Got& desired, double exptime = 0) {
    return dict.cas(key, &expected, &desired, exptime);
  }
};

TEST_F(CasTest, a_value_is_swapped_if_it_is_the_expected_one) {
  const std::vector<Got> values = {text("a"),        text(""),          text(std::string(1000, 'x')),
                                   number(1),        number(-0.5),      number(INFINITY),
                                   boolean(true),    boolean(false),    table("bytes"),
                                   table(""),        text("bytes"),     text(std::string("a\0b", 3)),
                                   text("12345678"), text("123456789"), text(std::string(999, 'x') + "y")};
  for (const Got& before : values) {
    for (const Got& after : values) {
      dict.remove("k");
      ASSERT_EQ(dict.cas("k", nullptr, &before), HOLDFAST_OK);
      for (const Got& other : values) {
        if (other == before) continue;
        ASSERT_EQ(cas("k", other, after), HOLDFAST_DIFFERS) << other << " instead of " << before;
        ASSERT_EQ(dict.get("k"), before);
      }
      ASSERT_EQ(cas("k", before, after), HOLDFAST_OK) << before << " to " << after;
      ASSERT_EQ(dict.get("k"), after);
    }
  }
}

TEST_F(CasTest, a_null_pointer_means_no_value_on_either_side) {
  const auto swap = [this](const holdfast_value* old, const holdfast_value* then) {
    return holdfast_cas(dict.handle, "k", 1, old, then, 0, nullptr);
  };
  holdfast_value one{};
  one.type = HOLDFAST_NUMBER;
  one.number = 1;
  EXPECT_EQ(swap(nullptr, nullptr), HOLDFAST_OK) << "replacing no value by no value";
  EXPECT_EQ(swap(nullptr, &one), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), number(1));
  EXPECT_EQ(swap(nullptr, nullptr), HOLDFAST_EXISTS);
  EXPECT_EQ(swap(&one, nullptr), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), nothing());
}

TEST_F(CasTest, numbers_are_compared_as_numbers) {
  dict.set_number("k", 0.0);
  EXPECT_EQ(cas("k", number(-0.0), number(NAN)), HOLDFAST_OK);
  EXPECT_TRUE(std::isnan(dict.get("k").number));
  EXPECT_EQ(cas("k", number(NAN), number(1)), HOLDFAST_DIFFERS) << "NaN equals nothing, not even itself";
  dict.set("k", "1");
  EXPECT_EQ(cas("k", number(1), number(2)), HOLDFAST_DIFFERS);
  dict.set_boolean("k", true);
  EXPECT_EQ(cas("k", number(1), number(2)), HOLDFAST_DIFFERS);
}

TEST_F(CasTest, invalid_times_and_types_are_refused_and_change_nothing) {
  dict.set("k", "a");
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(cas("k", text("a"), text("b"), bad), HOLDFAST_INVALID);
  for (const int bad : {-1, 2, 6, 8, 9, 1000}) {
    const Got odd{HOLDFAST_OK, bad, "a", 1, 0};
    EXPECT_EQ(cas("k", odd, text("b")), HOLDFAST_INVALID) << bad;
    EXPECT_EQ(cas("k", text("a"), odd), HOLDFAST_INVALID) << bad;
    EXPECT_NE(std::string(holdfast_error()).find("type"), std::string::npos);
  }
  EXPECT_EQ(cas("", text("a"), text("b")), HOLDFAST_INVALID);
  EXPECT_EQ(dict.get("k"), text("a"));
}

TEST_F(CasTest, one_of_several_processes_that_swap_the_same_value_succeeds) {
  constexpr int kRounds = 4000;
  constexpr int kProcesses = 3;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(std::make_unique<Child>([this](Channel& channel) {
      for (int done = 0; done < kRounds;) {
        const Got before = dict.get("count");
        // Alternates between a change in place and a new entry.
        const Got after = number(before.code == HOLDFAST_OK ? before.number + 1 : 1, before.flags + done % 2);
        const int code = dict.cas("count", before.code == HOLDFAST_OK ? &before : nullptr, &after);
        if (code == HOLDFAST_OK) ++done;
        if (code != HOLDFAST_OK && code != HOLDFAST_DIFFERS && code != HOLDFAST_EXISTS) return 1;
      }
      channel.say("done");
      return 0;
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->hear(), "done");
  EXPECT_EQ(dict.get("count").number, kRounds * kProcesses);
}

}  // namespace
}  // namespace holdfast::test
