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

TEST_F(StaleTest, what_has_expired_is_given_until_its_memory_is_taken) {
  dict.set("s", "v", 0.001, 3);
  dict.set_number("n", -2.5, 0.001, 4);
  dict.set_boolean("b", true, 0.001, 5);
  dict.set("long", std::string(3000, 'x'), 0.001);
  sleep_ms(20);
  EXPECT_EQ(dict.get("s"), nothing());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get_stale("s"), text("v", 3));
    EXPECT_TRUE(stale);
    EXPECT_EQ(get_stale("n"), number(-2.5, 4));
    EXPECT_TRUE(stale);
    EXPECT_EQ(get_stale("b"), boolean(true, 5));
    EXPECT_TRUE(stale);
    EXPECT_EQ(get_stale("long"), text(std::string(3000, 'x')));
    EXPECT_TRUE(stale);
  }
  EXPECT_LT(dict.ttl("s"), 0);
  EXPECT_GT(dict.ttl("s"), Dict::kNoKey);
  EXPECT_EQ(dict.flush_expired(), 4);
  EXPECT_EQ(get_stale("s"), nothing());
  EXPECT_FALSE(stale);
}

TEST_F(StaleTest, a_buffer_that_is_too_small_is_told_the_size_of_a_stale_value) {
  dict.set("k", "twelve bytes", 0.001);
  sleep_ms(20);
  holdfast_value value{};
  int is_stale = 0;
  EXPECT_EQ(holdfast_get_stale(dict.handle, "k", 1, &value, &is_stale), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 12U);
}

// --- flush_expired ---

TEST_F(StaleTest, flush_expired_takes_at_most_so_many_and_says_how_many) {
  for (int i = 0; i < 20; ++i) dict.set("expired" + std::to_string(i), "v", 0.001);
  for (int i = 0; i < 20; ++i) dict.set("stays" + std::to_string(i), "v", i % 2 == 0 ? 0 : 100);
  sleep_ms(20);
  const std::uint64_t before = dict.free_space();
  EXPECT_EQ(dict.flush_expired(1), 1);
  EXPECT_EQ(dict.flush_expired(7), 7);
  EXPECT_GT(dict.free_space(), before);
  EXPECT_EQ(dict.flush_expired(1000), 12);
  EXPECT_EQ(dict.flush_expired(), 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(dict.get("stays" + std::to_string(i)), text("v"));
}

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

TEST_F(StaleTest, locks_that_are_held_are_not_flushed_away_before_they_end) {
  holdfast_lease held{};
  holdfast_lease ended{};
  ASSERT_EQ(dict.try_lock("held", 100, &held), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("ended", 0.001, &ended), HOLDFAST_OK);
  sleep_ms(20);
  dict.flush_expired();
  EXPECT_EQ(dict.get("held"), boolean(true));
  EXPECT_EQ(dict.unlock("held", &held), HOLDFAST_OK);
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

TEST_F(StaleTest, safe_set_of_nil_deletes_as_set_does) {
  dict.set("k", "v");
  EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_SAFE_SET, "k", 1, HOLDFAST_NIL, nullptr, 0, 0, 0, 0, nullptr),
            HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), nothing());
  EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_SAFE_ADD, "k", 1, HOLDFAST_NIL, nullptr, 0, 0, 0, 0, nullptr),
            HOLDFAST_INVALID);
}

}  // namespace
}  // namespace holdfast::test
