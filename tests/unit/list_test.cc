// Tests lists: which elements they accept, and how they use memory. dictionary_model_test.cc tests their operations.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr int kLeft = HOLDFAST_LEFT;
constexpr int kRight = HOLDFAST_RIGHT;

class ListTest : public DictTest {
 protected:
  ListTest() : DictTest({.size = 1 << 20}) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    free_at_first = dict.free_space();
  }
  void TearDown() override {
    EXPECT_EQ(dict.stats().repairs, 0U) << "a caller's mistake was treated as damage";
    DictTest::TearDown();
  }

  std::uint64_t free_at_first = 0;
};

TEST_F(ListTest, a_pop_into_a_buffer_that_is_too_small_removes_nothing) {
  dict.push("k", kRight, std::string(100, 'x'));
  dict.push("k", kRight, "y");
  char bytes[99];
  holdfast_value value{};
  value.data = bytes;
  value.capacity = sizeof bytes;
  EXPECT_EQ(holdfast_pop(dict.handle, "k", 1, kLeft, &value), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 100U) << "the call must return the size that the buffer needs";
  EXPECT_EQ(dict.llen("k"), 2);
  EXPECT_EQ(dict.pop("k", kLeft, 100), text(std::string(100, 'x')));
  EXPECT_EQ(dict.pop("k", kLeft, 1), text("y"));
}

TEST_F(ListTest, an_invalid_end_or_type_is_refused_with_a_message) {
  std::uint32_t length = 9;
  EXPECT_EQ(dict.push("k", 2, "x"), -HOLDFAST_INVALID);
  EXPECT_NE(std::strstr(holdfast_error(), "left (0) or right (1)"), nullptr) << holdfast_error();
  EXPECT_EQ(dict.pop("k", -1).code, HOLDFAST_INVALID);
  EXPECT_EQ(holdfast_push(dict.handle, "k", 1, kLeft, HOLDFAST_BOOLEAN, nullptr, 0, 1, &length), HOLDFAST_INVALID);
  EXPECT_NE(std::strstr(holdfast_error(), "number or string"), nullptr) << holdfast_error();
}

// --- memory ---

TEST_F(ListTest, a_push_reuses_the_memory_of_expired_entries) {
  Dict small(new_name(), {.size = 65536});
  const std::string value(100, 'v');
  while (small.push("old", kRight, value) > 0) {
  }
  ASSERT_EQ(small.expire("old", 0.001), HOLDFAST_OK);
  sleep_ms(10);
  EXPECT_EQ(small.push("k", kRight, value), 1);
  EXPECT_EQ(small.llen("old"), 0);
  EXPECT_EQ(check_segment(small.segment()), "");
}

TEST_F(ListTest, an_element_and_its_list_take_the_documented_memory) {
  dict.push_number("k", kLeft, 1);
  EXPECT_EQ(free_at_first - dict.free_space(), 48U + 32U) << "the sizes of an entry and of a node have changed";
  dict.push_number("k", kLeft, 2);
  EXPECT_EQ(free_at_first - dict.free_space(), 48U + 2 * 32U);
}

}  // namespace
}  // namespace holdfast::test
