// Lists: what ngx.shared.DICT promises of them, and what they do to the memory they lie in.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <thread>

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
    EXPECT_EQ(repairs(), 0U) << "whatever a caller does is no damage";
    DictTest::TearDown();
  }

  std::uint64_t repairs() {
    DictionaryStats stats{};
    EXPECT_EQ(dict.dictionary().stats(stats), Code::ok);
    return stats.repairs;
  }

  std::uint64_t free_at_first = 0;
};

TEST_F(ListTest, push_tells_the_length_and_starts_a_list_where_there_is_nothing) {
  EXPECT_EQ(dict.llen("k"), 0);
  EXPECT_EQ(dict.push("k", kLeft, "a"), 1);
  EXPECT_EQ(dict.push("k", kRight, "b"), 2);
  EXPECT_EQ(dict.push_number("k", kLeft, 7), 3);
  EXPECT_EQ(dict.llen("k"), 3);
}

TEST_F(ListTest, both_ends_keep_their_order) {
  for (const char* value : {"c", "b", "a"}) dict.push("k", kLeft, value);
  for (const char* value : {"d", "e"}) dict.push("k", kRight, value);
  EXPECT_EQ(dict.pop("k", kLeft), text("a"));
  EXPECT_EQ(dict.pop("k", kRight), text("e"));
  EXPECT_EQ(dict.pop("k", kRight), text("d"));
  EXPECT_EQ(dict.pop("k", kLeft), text("b"));
  EXPECT_EQ(dict.pop("k", kRight), text("c"));
  EXPECT_EQ(dict.pop("k", kRight), nothing());
}

TEST_F(ListTest, the_key_goes_with_the_last_element) {
  for (const int end : {kLeft, kRight}) {
    dict.push("k", kLeft, "only");
    EXPECT_EQ(dict.keys(), std::multiset<std::string>{"k"});
    EXPECT_EQ(dict.pop("k", end), text("only"));
    EXPECT_EQ(dict.pop("k", end), nothing());
    EXPECT_EQ(dict.llen("k"), 0);
    EXPECT_EQ(dict.keys().size(), 0U);
    EXPECT_EQ(dict.free_space(), free_at_first);
  }
}

TEST_F(ListTest, elements_are_numbers_and_strings_of_any_bytes) {
  const std::string binary("\0\n\xFF\0", 4);
  const std::string large(60 * 1024, '\xA5');
  dict.push("k", kRight, "");
  dict.push_number("k", kRight, -0.5);
  dict.push("k", kRight, binary);
  dict.push("k", kRight, large);
  dict.push("k", kRight, "12");
  EXPECT_EQ(dict.pop("k", kLeft), text(""));
  EXPECT_EQ(dict.pop("k", kLeft), number(-0.5));
  EXPECT_EQ(dict.pop("k", kLeft), text(binary));
  EXPECT_EQ(dict.pop("k", kLeft), text(large));
  EXPECT_EQ(dict.pop("k", kLeft), text("12")) << "a string stays one";
}

TEST_F(ListTest, keys_of_any_bytes_have_lists) {
  for (const std::string& key : {std::string("\0", 1), std::string(300, 'k'), std::string("1")}) {
    EXPECT_EQ(dict.push(key, kLeft, key), 1);
    EXPECT_EQ(dict.pop(key, kRight), text(key));
  }
}

TEST_F(ListTest, a_buffer_that_is_too_small_takes_nothing_out) {
  dict.push("k", kRight, std::string(100, 'x'));
  dict.push("k", kRight, "y");
  char bytes[99];
  holdfast_value value{};
  value.data = bytes;
  value.capacity = sizeof bytes;
  EXPECT_EQ(holdfast_pop(dict.handle, "k", 1, kLeft, &value), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 100U) << "what it takes";
  EXPECT_EQ(dict.llen("k"), 2);
  EXPECT_EQ(dict.pop("k", kLeft, 100), text(std::string(100, 'x')));
  EXPECT_EQ(dict.pop("k", kLeft, 1), text("y"));
}

TEST_F(ListTest, what_is_no_list_is_refused_and_stays) {
  dict.set("text", "t");
  dict.set_number("number", 1);
  dict.set_boolean("boolean", true);
  for (const char* key : {"text", "number", "boolean"}) {
    const Got before = dict.get(key);
    EXPECT_EQ(dict.push(key, kLeft, "x"), -HOLDFAST_NOT_A_LIST);
    EXPECT_EQ(dict.pop(key, kRight).code, HOLDFAST_NOT_A_LIST);
    EXPECT_EQ(dict.llen(key), -HOLDFAST_NOT_A_LIST);
    EXPECT_EQ(dict.get(key), before);
  }
}

TEST_F(ListTest, a_bad_end_or_type_is_refused_with_a_sentence) {
  std::uint32_t length = 9;
  EXPECT_EQ(dict.push("k", 2, "x"), -HOLDFAST_INVALID);
  EXPECT_NE(std::strstr(holdfast_error(), "left (0) or right (1)"), nullptr) << holdfast_error();
  EXPECT_EQ(dict.pop("k", -1).code, HOLDFAST_INVALID);
  EXPECT_EQ(holdfast_push(dict.handle, "k", 1, kLeft, HOLDFAST_BOOLEAN, nullptr, 0, 1, &length), HOLDFAST_INVALID);
  EXPECT_NE(std::strstr(holdfast_error(), "number or string"), nullptr) << holdfast_error();
}

// --- what the other operations do with a list ---

class OverList : public ListTest {
 protected:
  void SetUp() override {
    ListTest::SetUp();
    for (int i = 0; i < 50; ++i) ASSERT_EQ(dict.push_number("k", kRight, i), i + 1);
  }
  void expect_untouched() {
    EXPECT_EQ(dict.llen("k"), 50);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(dict.pop("k", kLeft), number(i));
  }
};

TEST_F(OverList, get_and_get_stale_say_that_it_is_one) {
  EXPECT_EQ(dict.get("k").code, HOLDFAST_IS_A_LIST);
  bool stale = false;
  ValueOut out{};
  EXPECT_EQ(dict.dictionary().get_stale("k", out, stale), Code::is_a_list);
  expect_untouched();
}

TEST_F(OverList, set_and_replace_put_a_value_in_its_place) {
  EXPECT_EQ(dict.set("k", "v", 0, 3), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), text("v", 3));
  dict.remove("k");
  EXPECT_EQ(dict.free_space(), free_at_first) << "the nodes' memory comes back";
  dict.push("k", kLeft, "x");
  EXPECT_EQ(dict.replace("k", "w"), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), text("w"));
}

TEST_F(OverList, add_finds_that_it_exists) {
  EXPECT_EQ(dict.add("k", "v"), HOLDFAST_EXISTS);
  expect_untouched();
}

TEST_F(OverList, incr_says_not_a_number) {
  double sum = 0;
  EXPECT_EQ(dict.incr("k", 1, &sum), HOLDFAST_NOT_A_NUMBER);
  EXPECT_EQ(dict.incr_from("k", 1, 5, 0, &sum), HOLDFAST_NOT_A_NUMBER);
  expect_untouched();
}

TEST_F(OverList, cas_never_finds_it_equal) {
  Effect effect;
  const ValueIn five{EntryType::number, 0, 0, nullptr, 8};
  EXPECT_EQ(dict.dictionary().compare_and_swap("k", &five, &five, 0, effect), Code::differs);
  EXPECT_EQ(dict.dictionary().compare_and_swap("k", nullptr, &five, 0, effect), Code::exists);
  EXPECT_EQ(dict.dictionary().compare_and_swap("k", &five, nullptr, 0, effect), Code::differs);
  expect_untouched();
}

TEST_F(OverList, a_lock_of_the_same_name_is_refused) {
  holdfast_lease lease{};
  EXPECT_NE(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  expect_untouched();
}

TEST_F(OverList, delete_gives_all_memory_back) {
  EXPECT_EQ(dict.remove("k"), HOLDFAST_OK);
  EXPECT_EQ(dict.llen("k"), 0);
  EXPECT_EQ(dict.free_space(), free_at_first);
}

TEST_F(OverList, flush_all_ends_it_and_its_memory_comes_back) {
  EXPECT_EQ(dict.flush_all(), HOLDFAST_OK);
  EXPECT_EQ(dict.llen("k"), 0);
  EXPECT_EQ(dict.pop("k", kLeft), nothing());
  EXPECT_EQ(dict.keys().size(), 0U);
  std::uint32_t count = 0;
  EXPECT_EQ(dict.dictionary().flush_expired(~0U, count), Code::ok);
  EXPECT_EQ(count, 1U) << "a list is one value";
  EXPECT_EQ(dict.free_space(), free_at_first);
}

TEST_F(OverList, a_push_keeps_the_expiry_and_a_push_to_an_expired_list_starts_a_new_one) {
  EXPECT_EQ(dict.expire("k", 100), HOLDFAST_OK);
  EXPECT_EQ(dict.push("k", kRight, "x"), 51);
  EXPECT_GT(dict.ttl("k"), 50);
  EXPECT_EQ(dict.expire("k", 0.001), HOLDFAST_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(dict.llen("k"), 0);
  EXPECT_EQ(dict.pop("k", kLeft), nothing());
  EXPECT_EQ(dict.push("k", kLeft, "new"), 1);
  EXPECT_EQ(dict.ttl("k"), 0) << "without an end";
  EXPECT_EQ(dict.pop("k", kLeft), text("new"));
  EXPECT_EQ(dict.free_space(), free_at_first);
}

TEST_F(OverList, a_push_over_an_expired_value_starts_a_list) {
  dict.set("v", std::string(500, 'v'), 0.001);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(dict.push("v", kLeft, "x"), 1);
  EXPECT_EQ(dict.pop("v", kLeft), text("x"));
}

// --- memory ---

TEST_F(ListTest, a_push_without_memory_says_so_and_removes_nothing) {
  Dict small(new_name(), {.size = 65536});
  const std::uint64_t free = small.free_space();
  const std::string value(100, 'v');
  ASSERT_EQ(small.set("other", "o"), HOLDFAST_OK);
  int length = 0;
  while (small.push("k", kRight, value) > 0) ++length;
  EXPECT_GT(length, 300);
  EXPECT_EQ(small.push("k", kRight, value), -HOLDFAST_NO_MEMORY);
  EXPECT_EQ(small.push("new", kRight, value), -HOLDFAST_NO_MEMORY);
  EXPECT_EQ(small.llen("k"), length);
  EXPECT_EQ(small.llen("new"), 0);
  EXPECT_EQ(small.get("other"), text("o"));
  EXPECT_EQ(check_segment(small.segment()), "");
  EXPECT_EQ(small.pop("k", kLeft), text(value));
  EXPECT_EQ(small.push("k", kRight, value), length) << "what was taken out makes room";
  small.remove("k");
  small.remove("other");
  EXPECT_EQ(small.free_space(), free);
}

TEST_F(ListTest, a_push_takes_the_memory_of_what_has_expired) {
  Dict small(new_name(), {.size = 65536});
  const std::string value(100, 'v');
  while (small.push("old", kRight, value) > 0) {
  }
  ASSERT_EQ(small.expire("old", 0.001), HOLDFAST_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(small.push("k", kRight, value), 1);
  EXPECT_EQ(small.llen("old"), 0);
  EXPECT_EQ(check_segment(small.segment()), "");
}

TEST_F(ListTest, an_element_that_can_never_fit_is_too_large) {
  const std::string large(2 << 20, 'x');
  EXPECT_EQ(dict.push("k", kLeft, large), -HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.llen("k"), 0);
}

TEST_F(ListTest, an_element_and_its_list_take_what_the_format_says) {
  dict.push_number("k", kLeft, 1);
  EXPECT_EQ(free_at_first - dict.free_space(), 48U + 32U) << "entry and node";
  dict.push_number("k", kLeft, 2);
  EXPECT_EQ(free_at_first - dict.free_space(), 48U + 2 * 32U);
}

// --- against a model ---

TEST_F(ListTest, any_sequence_of_operations_leaves_what_a_deque_holds) {
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr int kLists = 6;
  std::deque<Got> models[kLists];
  for (int step = 0; step < 60'000; ++step) {
    const auto which = random() % kLists;
    const std::string key = "list-" + std::to_string(which);
    std::deque<Got>& model = models[which];
    const int end = random() % 2 == 0 ? kLeft : kRight;
    // In waves, so that lists grow long and become empty.
    const bool grows = random() % 10 < (step / 3000 % 2 == 0 ? 7U : 3U);
    if (random() % 997 == 0) {
      ASSERT_EQ(dict.remove(key), HOLDFAST_OK);
      model.clear();
    } else if (grows) {
      const std::size_t size = random() % 50 == 0 ? random() % 20'000 : random() % 60;
      const Got value = random() % 3 == 0 ? number(static_cast<double>(random() % 1000))
                                          : text(std::string(size, static_cast<char>(random())));
      const int length =
          value.type == HOLDFAST_NUMBER ? dict.push_number(key, end, value.number) : dict.push(key, end, value.text);
      if (length == -HOLDFAST_NO_MEMORY) continue;
      end == kLeft ? model.push_front(value) : model.push_back(value);
      ASSERT_EQ(length, static_cast<int>(model.size()));
    } else {
      const Got got = dict.pop(key, end);
      ASSERT_EQ(got, model.empty() ? nothing() : end == kLeft ? model.front() : model.back()) << "step " << step;
      if (!model.empty()) end == kLeft ? model.pop_front() : model.pop_back();
    }
    ASSERT_EQ(dict.llen(key), static_cast<int>(model.size()));
    if (step % 500 == 0) {
      ASSERT_EQ(check_segment(dict.segment()), "") << "step " << step;
    }
  }
  for (int i = 0; i < kLists; ++i)
    for (; !models[i].empty(); models[i].pop_front())
      ASSERT_EQ(dict.pop("list-" + std::to_string(i), kLeft), models[i].front());
  EXPECT_EQ(dict.free_space(), free_at_first);
}

}  // namespace
}  // namespace holdfast::test
