// What has expired or was flushed: readable by get_stale while it is there, and gone when it is asked to go.
#include <gtest/gtest.h>

#include <string>

#include "support/dict_test.h"

namespace holdfast::test {
namespace {

class StaleTest : public DictTest {
 protected:
  Got get_stale(std::string_view key) { return dict.get_stale(key, &stale); }

  bool stale = false;
};

TEST_F(StaleTest, a_buffer_that_is_too_small_is_told_the_size_of_a_stale_value) {
  dict.set("k", "twelve bytes", 0.001);
  sleep_ms(20);
  holdfast_value value{};
  int is_stale = 0;
  EXPECT_EQ(holdfast_get_stale(dict.handle, "k", 1, &value, &is_stale), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 12U);
}

// --- flush_expired ---

TEST_F(StaleTest, flush_expired_of_0_takes_all_in_all_shards) {
  Dict wide(new_name(), {.size = 9 << 20});
  const std::uint64_t before = wide.free_space();
  for (int i = 0; i < 1000; ++i) wide.set("k" + std::to_string(i), std::string(50, 'v'));
  for (int i = 0; i < 10; ++i) wide.push("list", HOLDFAST_LEFT, "element");
  wide.flush_all();
  EXPECT_EQ(wide.flush_expired(300), 300);
  EXPECT_EQ(wide.flush_expired(0), 701) << "a list is one";
  EXPECT_EQ(wide.free_space(), before) << "its nodes go with it";
  EXPECT_EQ(wide.stats().entries, 0U);
}

// --- stores that remove nothing ---

TEST_F(StaleTest, safe_stores_take_the_room_of_what_has_expired_and_no_other) {
  int count = 0;
  while (dict.store(HOLDFAST_SAFE_SET, "k" + std::to_string(count), std::string(100, 'v'), 0, 0) == HOLDFAST_OK)
    ++count;
  ASSERT_GT(count, 100);
  for (const int op : {HOLDFAST_SAFE_SET, HOLDFAST_SAFE_ADD})
    EXPECT_EQ(dict.store(op, "another", std::string(100, 'v'), 0, 0), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(dict.store(HOLDFAST_SAFE_SET, "k0", std::string(4000, 'x'), 0, 0), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(dict.stats().evictions, 0U);
  for (int i = 0; i < count; ++i) ASSERT_EQ(dict.get("k" + std::to_string(i)), text(std::string(100, 'v')));
  EXPECT_EQ(dict.store(HOLDFAST_SAFE_ADD, "k0", "v", 0, 0), HOLDFAST_EXISTS);
  dict.expire("k0", 0.001);
  sleep_ms(20);
  EXPECT_EQ(dict.store(HOLDFAST_SAFE_ADD, "another", std::string(100, 'v'), 0, 0), HOLDFAST_OK);
  EXPECT_EQ(get_stale("k0"), nothing()) << "its memory was needed";
  EXPECT_EQ(dict.stats().evictions, 0U);
}

}  // namespace
}  // namespace holdfast::test
