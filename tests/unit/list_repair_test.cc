// Tests what a repair preserves of a list with overwritten words, and of a list that a process was changing when it
// died. Also tests how a node moves.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dict/guard.h"
#include "dict/list.h"
#include "dict/repair.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr int kLeft = HOLDFAST_LEFT;
constexpr int kRight = HOLDFAST_RIGHT;

using Elements = std::vector<std::string>;

class ListRepairTest : public DictTest {
 protected:
  ListRepairTest() : DictTest({.size = 32768}) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    for (const std::string& element : all()) ASSERT_GT(dict.push("list", kRight, element), 0);
    dict.set("value", "v");
    dict.push("other", kRight, "x");
    dict.push("other", kRight, "y");
    ASSERT_EQ(check_shard(shard()), "");
  }
  void TearDown() override {
    EXPECT_EQ(dict.get("value"), text("v"));
    DictTest::TearDown();
  }

  static Elements all() { return {"a", "bb", "", "dddd", std::string(200, 'e'), "f"}; }
  static Elements first(std::size_t count) {
    const Elements elements = all();
    return {elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  EntryView entry(const std::string& name = "list") { return place_of(name).view; }
  Word64& word(const std::string& name = "list") { return entry(name).list().word; }
  ListEnds ends(const std::string& name = "list") { return entry(name).list_ends(); }
  void set_ends(const ListEnds& bad) {
    word().store(bad.word());
    entry().entry->flags.store(bad.last);
  }
  ListNode& node(std::uint32_t block) { return *reinterpret_cast<ListNode*>(shard().words32(block)); }
  /// Returns the block of the element with this number.
  std::uint32_t block_of(int number, const std::string& name = "list") {
    std::uint32_t block = ends(name).first;
    for (int i = 0; i < number; ++i) block = node(block).next.load();
    return block;
  }
  /// Pops all elements, half of them from the left and half from the right, and returns them.
  Elements take_out(const std::string& name = "list") {
    Elements left;
    Elements right;
    const int length = dict.llen(name);
    for (int i = 0; i < length; ++i) {
      const Got got = dict.pop(name, i % 2 == 0 ? kLeft : kRight);
      EXPECT_EQ(got.code, HOLDFAST_OK);
      i % 2 == 0 ? left.push_back(got.text) : right.push_back(got.text);
    }
    EXPECT_EQ(dict.pop(name, kLeft), nothing());
    left.insert(left.end(), right.rbegin(), right.rend());
    return left;
  }
};

TEST_F(ListRepairTest, an_intact_list_loses_nothing) {
  const std::uint64_t before = dict.free_space();
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(take_out(), all());
}

TEST_F(ListRepairTest, derived_words_are_rebuilt_without_loss_of_an_element) {
  const ListEnds good = ends();
  std::uint32_t garbage = 3;
  for (int i = 0; i < 6; ++i) node(block_of(i)).previous.store(garbage *= 7);
  set_ends({good.first, 12345, good.length});
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(ends().word(), good.word());
  EXPECT_EQ(ends().last, good.last);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(take_out(), all());
}

TEST_F(ListRepairTest, a_list_is_cut_before_its_first_invalid_node) {
  const std::uint32_t links[] = {0, 1, shard().granules() - 1, shard().granules(), 0xFFFFFFFF};
  for (const std::uint32_t link : links) {
    node(block_of(2)).next.store(link);
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(take_out(), first(3));
    for (const std::string& element : all()) dict.push("list", kRight, element);
  }
}

TEST_F(ListRepairTest, a_list_ends_before_a_node_with_a_wrong_type_key_or_size) {
  const std::function<void(ListNode&)> damages[] = {
      [](ListNode& one) { one.shape.store(one.shape.load() ^ 0x10000); },
      [](ListNode& one) { one.shape.store(one.shape.load() ^ 0xFF000000); },
      [](ListNode& one) { one.hash.store(one.hash.load() ^ 1); },
      [](ListNode& one) { one.value_size.store(1 << 20); },
      [](ListNode& one) { one.value_size.store(one.value_size.load() + 64); },  // into the next node
  };
  for (const auto& damage : damages) {
    damage(node(block_of(3)));
    EXPECT_GE(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    const Elements kept = take_out();
    EXPECT_GE(kept.size(), 3U);
    EXPECT_LT(kept.size(), 6U);
    for (const std::string& element : all()) dict.push("list", kRight, element);
  }
}

TEST_F(ListRepairTest, a_list_in_a_cycle_ends_where_the_cycle_closes) {
  node(block_of(3)).next.store(block_of(1));
  EXPECT_EQ(repair(shard()), 1U);
  EXPECT_EQ(take_out(), first(4));
}

TEST_F(ListRepairTest, a_list_does_not_continue_into_another_list) {
  node(block_of(1)).next.store(block_of(0, "other"));
  EXPECT_EQ(repair(shard()), 1U);
  EXPECT_EQ(take_out(), first(2));
  EXPECT_EQ(take_out("other"), (Elements{"x", "y"}));
}

TEST_F(ListRepairTest, a_length_that_is_too_long_is_corrected) {
  const ListEnds good = ends();
  for (const std::uint32_t length : {7U, 1000U, ~0U}) {
    set_ends({good.first, good.last, length});
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(dict.llen("list"), 6);
  }
  EXPECT_EQ(take_out(), all());
}

TEST_F(ListRepairTest, a_list_without_elements_is_removed) {
  const ListEnds good = ends();
  const std::uint64_t words[] = {0, ~std::uint64_t{0}, ListEnds{good.first, good.last, 0}.word(),
                                 ListEnds{0, good.last, 6}.word(), ListEnds{block_of(0, "other"), good.last, 6}.word()};
  for (const std::uint64_t bad : words) {
    word().store(bad);
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(dict.llen("list"), 0);
    EXPECT_EQ(dict.get("list"), nothing());
    for (const std::string& element : all()) ASSERT_GT(dict.push("list", kRight, element), 0);
  }
}

TEST_F(ListRepairTest, removing_a_list_without_elements_removes_nothing_else) {
  constexpr int kLists = 20;
  const auto list = [](int number) { return "lost" + std::to_string(number); };
  const auto other = [](int number) { return "key" + std::to_string(number); };
  for (int i = 0; i < kLists; ++i) ASSERT_GT(dict.push(list(i), kRight, "x"), 0);
  // There are so many entries that some of them come after the lists in their chains.
  for (int i = 0; i < 10 * kLists; ++i) ASSERT_EQ(dict.set(other(i), "x"), HOLDFAST_OK);
  for (int i = 0; i < kLists; ++i) {
    word(list(i)).store(0);
    EXPECT_EQ(repair(shard()), 1U);
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(dict.llen(list(i)), 0);
  }
  for (int i = 0; i < 10 * kLists; ++i) EXPECT_EQ(dict.get(other(i)), text("x")) << other(i);
}

TEST_F(ListRepairTest, lists_without_elements_may_be_in_a_cycle) {
  const Position list = place_of("list");
  word().store(0);
  list.view.entry->next.store(list.block);
  EXPECT_GE(repair(shard()), 1U);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(dict.llen("list"), 0);
  dict.set("value", "v");  // the list may have preceded the value in the chain
}

TEST_F(ListRepairTest, an_operation_that_finds_damage_repairs_it_and_continues) {
  const std::uint64_t repairs = shard().header().repairs.load();
  node(block_of(5)).previous.store(4711);
  EXPECT_EQ(dict.pop("list", kRight), text("f"));
  EXPECT_EQ(shard().header().repairs.load(), repairs + 1);
  set_ends({ends().first, 0, 5});
  EXPECT_EQ(dict.push("list", kRight, "f"), 6);
  EXPECT_EQ(shard().header().repairs.load(), repairs + 2);
  EXPECT_EQ(take_out(), all());
  dict.push("list", kRight, "a");
  word().store(0);
  EXPECT_EQ(dict.pop("list", kLeft), nothing());
  EXPECT_EQ(dict.push("list", kRight, "a"), 1);
  dict.push("list", kRight, "b");
  node(block_of(0)).next.store(0xFFFFFFFF);
  EXPECT_EQ(dict.remove("list"), HOLDFAST_OK)
      << "the delete must succeed although not all of the list's nodes were found";
}

// --- moving a node ---

class NodeMove : public ListRepairTest {
 protected:
  /// Copies the node into a new block.
  std::uint32_t copy_of(std::uint32_t from) {
    EntryView view{};
    EXPECT_TRUE(shard().inspect(from, view));
    Arena arena(shard());
    const std::uint32_t to = arena.allocate(view.granules);
    EXPECT_NE(to, 0U);
    std::memcpy(static_cast<void*>(shard().words32(to)), shard().words32(from), std::size_t{view.granules} * kGranule);
    return to;
  }
  void give_back(std::uint32_t block) {
    EntryView view{};
    EXPECT_TRUE(shard().inspect(block, view));
    Arena(shard()).release(block, view.granules);
  }
  void make_list(int length) {
    dict.remove("list");
    for (int i = 0; i < length; ++i) dict.push("list", kRight, all()[static_cast<std::size_t>(i)]);
  }
};

TEST_F(NodeMove, a_copy_can_replace_any_node) {
  for (int length = 1; length <= 5; ++length) {
    for (int number = 0; number < length; ++number) {
      SCOPED_TRACE(std::to_string(number) + " of " + std::to_string(length));
      make_list(length);
      const std::uint32_t from = block_of(number);
      const std::uint32_t to = copy_of(from);
      ASSERT_TRUE(List::relink(shard(), from, to));
      give_back(from);
      EXPECT_EQ(check_shard(shard()), "");
      EXPECT_EQ(block_of(number), to);
      EXPECT_EQ(take_out(), first(static_cast<std::size_t>(length)));
    }
  }
}

TEST_F(NodeMove, a_death_after_the_committing_store_leaves_the_node_moved) {
  for (int length = 1; length <= 5; ++length) {
    for (int number = 0; number < length; ++number) {
      SCOPED_TRACE(std::to_string(number) + " of " + std::to_string(length));
      make_list(length);
      const std::uint64_t before = dict.free_space();
      const std::uint32_t from = block_of(number);
      const std::uint32_t to = copy_of(from);
      ASSERT_TRUE(List::relink(shard(), from, to));
      // Restores the words that the move stores after the committing store.
      if (number + 1 < length) node(block_of(number + 1)).previous.store(from);
      if (number + 1 == length && length > 1) set_ends({ends().first, from, ends().length});
      EXPECT_EQ(repair(shard()), 0U);
      EXPECT_EQ(check_shard(shard()), "");
      EXPECT_EQ(dict.free_space(), before) << "the old node was not freed";
      EXPECT_EQ(block_of(number), to);
      EXPECT_EQ(take_out(), first(static_cast<std::size_t>(length)));
    }
  }
}

TEST_F(NodeMove, a_death_before_the_committing_store_leaves_the_node_unmoved) {
  const std::uint64_t before = dict.free_space();
  copy_of(block_of(2));
  EXPECT_EQ(repair(shard()), 0U);
  EXPECT_EQ(dict.free_space(), before);
  EXPECT_EQ(take_out(), all());
}

TEST_F(NodeMove, a_node_that_used_to_be_an_end_is_found_by_its_current_links) {
  // The node's outward links still lead to removed nodes, whose memory is already in use again.
  make_list(3);
  dict.pop("list", kLeft);
  dict.push("list", kRight, "q");
  dict.push("list", kRight, "r");
  dict.pop("list", kRight);
  dict.push("list", kLeft, "p");
  for (int number = 0; number < 4; ++number) {
    const std::uint32_t from = block_of(number);
    const std::uint32_t to = copy_of(from);
    ASSERT_TRUE(List::relink(shard(), from, to));
    give_back(from);
    ASSERT_EQ(check_shard(shard()), "");
  }
  EXPECT_EQ(take_out(), (Elements{"p", "bb", "", "q"}));
}

TEST_F(NodeMove, a_node_that_is_in_no_list_is_refused_and_nothing_changes) {
  const std::string name = "list";
  Arena arena(shard());
  const ValueIn value{EntryType::string, 0, 0, "lost", 4};
  const std::uint32_t lone = List::create(shard(), arena, Key(name, dict.segment().seed()), value);
  const std::uint32_t other = copy_of(lone);
  EXPECT_FALSE(List::relink(shard(), lone, other)) << "the node is in no list";
  EXPECT_FALSE(List::relink(shard(), shard().granules() + 5, other));
  node(block_of(3)).hash.store(node(block_of(3)).hash.load() ^ 2);
  EXPECT_FALSE(List::relink(shard(), block_of(3), other)) << "the node's key does not exist";
  node(block_of(3)).hash.store(node(block_of(3)).hash.load() ^ 2);
  node(block_of(3)).previous.store(block_of(1));
  EXPECT_FALSE(List::relink(shard(), block_of(3), other)) << "the node's neighbour does not point back";
  node(block_of(3)).previous.store(block_of(2));
  give_back(lone);
  give_back(other);
  EXPECT_EQ(check_shard(shard()), "");
  EXPECT_EQ(take_out(), all());
}

}  // namespace
}  // namespace holdfast::test
