// Tests a full shard: which entries are evicted, which are moved, and which stay.
#include "dict/reclaimer.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/dict_test.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

class ReclaimerTest : public DictTest {
 protected:
  ReclaimerTest() : DictTest({.size = 65536}) {}

  void TearDown() override {
    EXPECT_EQ(header().repairs.load(), 0U) << "a shard was repaired although no process died";
    DictTest::TearDown();
  }

  static std::string key(int i) { return "key-" + std::to_string(10000 + i); }
  static std::string value(int i, std::size_t size) { return std::string(size, static_cast<char>('a' + i % 26)); }

  std::uint32_t arena() { return shard().granules() - 1; }
  int safe_set(const std::string& name, const std::string& bytes) {
    return dict.store(HOLDFAST_SAFE_SET, name, bytes, 0, 0);
  }
  /// Runs a `forcible` set, which must succeed. Returns whether the set evicted an entry.
  bool set_evicts(const std::string& name, const std::string& bytes) {
    int forcible = 0;
    EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_SET, name.data(), name.size(), HOLDFAST_STRING, bytes.data(),
                             bytes.size(), 0, 0, 0, &forcible),
              HOLDFAST_OK)
        << holdfast_error();
    EXPECT_EQ(check_segment(dict.segment()), "");
    return forcible != 0;
  }
  /// Stores values of this size, under consecutive keys that begin with number `first`, until no more fit. Returns the
  /// number of stored values.
  int fill(std::size_t size, int first = 0) {
    int count = 0;
    while (safe_set(key(first + count), value(first + count, size)) == HOLDFAST_OK) ++count;
    return count;
  }
  int missing(int first, int count) {
    int gone = 0;
    for (int i = first; i < first + count; ++i) gone += dict.get(key(i)) == nothing() ? 1 : 0;
    return gone;
  }
  /// Clears the use counts of all entries, so that a test can set the counts that it needs.
  void cool() {
    for (std::uint32_t block = 0; block < shard().granules(); ++block) shard().uses(block).store(0);
  }
  static std::string lock_name(std::size_t i) { return "lock-" + std::to_string(10000 + i); }
  /// Takes locks until no more fit.
  std::vector<holdfast_lease> hold_all(double exptime = 0) {
    std::vector<holdfast_lease> leases(1);
    while (dict.try_lock(lock_name(leases.size() - 1), exptime, &leases.back()) == HOLDFAST_OK) leases.emplace_back();
    leases.pop_back();
    EXPECT_GT(leases.size(), 100U);
    return leases;
  }
  holdfast_lease lease{};
};

TEST_F(ReclaimerTest, unused_entries_are_evicted_before_used_ones) {
  const int count = fill(60);
  ASSERT_GT(count, 200);
  cool();
  for (int i = 0; i < count; i += 2) ASSERT_EQ(dict.get(key(i)).code, HOLDFAST_OK);
  for (int i = 0; i < count / 2; ++i) ASSERT_TRUE(set_evicts("new-" + std::to_string(10000 + i), value(i, 60)));
  for (int i = 0; i < count; i += 2) EXPECT_EQ(dict.get(key(i)), text(value(i, 60))) << "was used: " << i;
  EXPECT_EQ(missing(0, count), count / 2) << "expected one eviction for each new entry";
  EXPECT_EQ(header().evictions.load(), static_cast<std::uint64_t>(count / 2));
}

TEST_F(ReclaimerTest, new_entries_stay_longer_than_old_ones) {
  const int count = fill(60);
  cool();
  for (int i = 0; i < 20 * count; ++i) {
    ASSERT_EQ(dict.set(key(count + i), value(i, 60)), HOLDFAST_OK);
    if (i > count) {
      ASSERT_NE(place_of(key(i + count - count / 2)).block, 0U) << "entries of the last half lap must stay";
    }
  }
}

TEST_F(ReclaimerTest, if_all_entries_were_used_one_is_still_evicted) {
  const int count = fill(60);
  for (int round = 0; round < 4; ++round)
    for (int i = 0; i < count; ++i) dict.get(key(i));
  EXPECT_TRUE(set_evicts("new", value(0, 60)));
  EXPECT_EQ(dict.get("new"), text(value(0, 60)));
}

TEST_F(ReclaimerTest, expired_entries_are_removed_before_live_ones) {
  const int count = fill(60);
  cool();
  for (int i = 0; i < count; i += 3) ASSERT_EQ(dict.expire(key(i), 0.001), HOLDFAST_OK);
  sleep_ms(30);
  int expired = 0;
  for (int i = 0; i < count; i += 3) ++expired;
  for (int i = 0; i < expired; ++i) ASSERT_FALSE(set_evicts("new-" + std::to_string(10000 + i), value(i, 60))) << i;
  for (int i = 0; i < count; ++i) {
    if (i % 3 != 0) {
      ASSERT_EQ(dict.get(key(i)), text(value(i, 60)));
    }
  }
  EXPECT_EQ(header().expirations.load(), static_cast<std::uint64_t>(expired));
  EXPECT_EQ(header().evictions.load(), 0U);
  EXPECT_TRUE(set_evicts("one-more-key", value(0, 60))) << "no expired entry is left";
}

TEST_F(ReclaimerTest, flushed_entries_are_removed_before_live_ones) {
  const int count = fill(60);
  dict.flush_all();
  for (int i = 0; i < count; ++i) ASSERT_FALSE(set_evicts(key(count + i), value(i, 60)));
  EXPECT_TRUE(set_evicts("one-more-key", value(0, 60)));
}

TEST_F(ReclaimerTest, a_sweep_that_found_little_pauses_but_no_memory_is_reported_only_if_true) {
  Dict large(new_name(), {.size = 1 << 20});
  const auto safe = [&](int i, double exptime) {
    return large.store(HOLDFAST_SAFE_SET, key(i), value(i, 60), exptime, 0);
  };
  int count = 0;
  while (safe(count, 0) == HOLDFAST_OK) ++count;
  for (int round = 0; round < 30; ++round) {
    const int i = round * 7;
    ASSERT_EQ(large.expire(key(i), 1e-9), HOLDFAST_OK);
    ASSERT_TRUE(eventually([&] { return large.get(key(i)).code == HOLDFAST_NOT_FOUND; }));
    ASSERT_EQ(safe(count + round, 0), HOLDFAST_OK) << round;
  }
  EXPECT_EQ(check_segment(large.segment()), "");
  holdfast_remove(large.dictionary().name().data(), large.dictionary().name().size());
}

// --- locks ---

TEST_F(ReclaimerTest, held_locks_always_stay_and_locks_that_nobody_holds_are_evicted) {
  std::vector<holdfast_lease> leases(20);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(dict.try_lock("held-" + std::to_string(i), 0, &leases[static_cast<std::size_t>(i)]), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("free-" + std::to_string(i), 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("free-" + std::to_string(i), &lease), HOLDFAST_OK);
  }
  fill(60);
  EXPECT_EQ(header().perhaps_free.load(), 20U) << "the count must include the held locks";
  EXPECT_EQ(header().evictions.load(), 0U) << "the removal of a free lock must not count as an eviction";
  // The keys have many sizes, so that locks are also moved. Together, the values are several times as large as the
  // arena.
  for (int i = 0; i < 2000; ++i) set_evicts(key(i), value(i, static_cast<std::size_t>(i * 7919 % 700)));
  for (std::size_t i = 0; i < 20; ++i) {
    const std::string name = "held-" + std::to_string(i);
    EXPECT_EQ(dict.get(name), boolean(true)) << name;
    EXPECT_EQ(dict.try_lock(name, 0, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.renew(name, leases[i], 100), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock(name, &leases[i]), HOLDFAST_OK) << "the owner or the fencing token has changed";
  }
}

TEST_F(ReclaimerTest, locks_that_nobody_holds_make_room_for_others) {
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(dict.try_lock("lock" + std::to_string(i), 0, &lease), HOLDFAST_OK) << "after " << i << ", none held";
    ASSERT_EQ(dict.unlock("lock" + std::to_string(i), &lease), HOLDFAST_OK);
  }
}

TEST_F(ReclaimerTest, a_dictionary_full_of_held_locks_reports_no_memory) {
  std::vector<holdfast_lease> leases = hold_all();
  EXPECT_EQ(dict.set("more", value(0, 60)), HOLDFAST_NO_MEMORY);
  ASSERT_EQ(dict.unlock(lock_name(7), &leases[7]), HOLDFAST_OK);
  EXPECT_EQ(dict.set("more", "x"), HOLDFAST_OK);
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(dict.unlock(lock_name(i), &leases[i]), i != 7 ? HOLDFAST_OK : HOLDFAST_NOT_OWNER);
}

TEST_F(ReclaimerTest, a_refused_request_succeeds_as_soon_as_enough_leases_end_in_any_way) {
  const std::string large = value(0, 220);  // more than a lock takes
  const auto ways = std::vector<std::function<void(std::size_t, holdfast_lease&)>>{
      [&](std::size_t i, holdfast_lease& mine) { ASSERT_EQ(dict.unlock(lock_name(i), &mine), HOLDFAST_OK); },
      [&](std::size_t i, holdfast_lease&) { ASSERT_EQ(dict.remove(lock_name(i)), HOLDFAST_OK); },
      [&](std::size_t i, holdfast_lease& mine) { ASSERT_EQ(dict.renew(lock_name(i), mine, 0.001), HOLDFAST_OK); },
      [&](std::size_t, holdfast_lease&) { dict.flush_all(); },
  };
  for (const auto& end : ways) {
    std::vector<holdfast_lease> leases = hold_all();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(dict.set("more", large), HOLDFAST_NO_MEMORY);
    EXPECT_NE(header().no_room.load(), 0U);
    for (const std::size_t i : {20, 40, 60}) end(i, leases[i]);
    sleep_ms(10);
    EXPECT_EQ(dict.set("more", large), HOLDFAST_OK) << "fragmented memory must not be a reason to refuse the set";
    EXPECT_EQ(check_segment(dict.segment()), "");
    dict.flush_all();
  }
}

TEST_F(ReclaimerTest, a_refused_request_succeeds_when_a_great_many_leases_have_ended) {
  const std::vector<holdfast_lease> leases = hold_all(1000);
  fill(0);
  EXPECT_EQ(safe_set("no", "room"), HOLDFAST_NO_MEMORY);
  for (std::size_t i = 0; i < leases.size(); ++i) ASSERT_EQ(dict.renew(lock_name(i), leases[i], 0.001), HOLDFAST_OK);
  sleep_ms(20);
  EXPECT_EQ(safe_set("now", "there is"), HOLDFAST_OK);
}

TEST_F(ReclaimerTest, a_refused_request_succeeds_as_soon_as_a_holder_has_died) {
  Resident other([&] {
    holdfast_lease theirs{};
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(dict.try_lock("their-" + std::to_string(10000 + i), 0, &theirs), HOLDFAST_OK);
  });
  hold_all();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(dict.set("more", value(0, 600)), HOLDFAST_NO_MEMORY);
  other.kill_and_wait();
  EXPECT_EQ(dict.set("more", value(0, 600)), HOLDFAST_OK);
}

// If a request is refused because of a remembered shortage, a complete search must also fail.
TEST_F(ReclaimerTest, no_request_is_refused_for_a_past_shortage) {
  constexpr int kKeys = 400;
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t end) { return static_cast<int>(random() % end); };
  const auto numbered = [](const char* kind, int i) { return kind + std::to_string(1000 + i); };
  std::vector<holdfast_lease> locks(kKeys);
  std::vector<holdfast_lease> shares(kKeys);
  const auto demand = [&]() -> int {
    const int i = below(kKeys);
    const auto size = static_cast<std::size_t>(below(3) == 0 ? below(3000) : below(200));
    switch (below(6)) {
      case 0:
        return dict.set(numbered("value ", i % 8), value(i, size));
      case 1:
        return safe_set(numbered("value ", i % 8), value(i, size));
      case 2:
        return -std::min(dict.push(numbered("list ", i % 4), HOLDFAST_LEFT, value(i, size % 300)), 0);
      case 3:
        return dict.try_permits(numbered("shared ", i), HOLDFAST_SEMAPHORE, 1, 3, 0,
                                &shares[static_cast<std::size_t>(i)]);
      default:
        return dict.try_lock(numbered("lock ", i), 0, &locks[static_cast<std::size_t>(i)]);
    }
  };
  const auto give_back = [&]() -> int {
    const int i = below(kKeys);
    switch (below(10)) {
      case 0:
        return dict.remove(numbered("value ", i % 8));
      case 1:
        return dict.remove(numbered("lock ", i));
      case 2:
        return dict.pop(numbered("list ", i % 4), HOLDFAST_RIGHT).code;
      case 3:
      case 4:
        return dict.unlock(numbered("shared ", i), &shares[static_cast<std::size_t>(i)]);
      case 5:
      case 6:
        return dict.unlock(numbered("lock ", i), &locks[static_cast<std::size_t>(i)]);
      default:
        return HOLDFAST_OK;
    }
  };
  int refused = 0;
  int searched = 0;
  for (int round = 0; round < 40000; ++round) {
    give_back();
    const std::mt19937 before = random;
    if (demand() != HOLDFAST_NO_MEMORY) continue;
    ++refused;
    if (refused % 4 != 0) continue;  // most searches rely on the results of earlier searches
    // If a search fails but moves entries, a second search may succeed.
    if (header().failed.load() != 0) continue;
    ++searched;
    header().no_room.store(0);
    header().no_run.store(0);
    header().asked.store(0);
    random = before;
    ASSERT_EQ(demand(), HOLDFAST_NO_MEMORY) << "round " << round;
  }
  EXPECT_GT(searched, 300);
  EXPECT_EQ(check_segment(dict.segment()), "");
}

TEST_F(ReclaimerTest, an_overwritten_shortage_does_not_refuse_requests_for_long) {
  fill(60);
  header().no_room.store(1);
  header().failed.store(~0U);
  header().asked.store(~0U);
  EXPECT_TRUE(eventually([&] { return dict.set("new", value(0, 60)) == HOLDFAST_OK; }));
}

TEST_F(ReclaimerTest, an_overwritten_shortage_refuses_nothing_after_a_complete_search) {
  const int count = fill(60);
  for (int i = 0; i < 100; ++i) {  // repeated, because the second search usually follows the first within a microsecond
    header().no_room.store(1);
    header().asked.store(0);
    ASSERT_EQ(dict.set(key(count + i), value(0, 60)), HOLDFAST_OK) << "round " << i;
    ASSERT_NE(header().asked.load(), 0U) << "the search was not recorded";
  }
}

TEST_F(ReclaimerTest, a_waiter_for_a_lock_gets_it_after_everything_else_was_evicted) {
  for (int i = 0; i < 50; ++i) ASSERT_EQ(safe_set(key(i), value(i, 10)), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
  Waiting waiting;
  holdfast_lease second{};
  fill(10, 50);
  for (int i = 0; i < 50; ++i) dict.remove(key(i));
  ASSERT_EQ(waiting.once(dict, "lock", &second), HOLDFAST_LOCKED);
  const std::uint32_t block = place_of("lock").block;
  for (int i = 0; i < 2000; ++i) set_evicts(key(i), value(i, static_cast<std::size_t>(i * 7919 % 700)));
  EXPECT_EQ(place_of("lock").block, block) << "the lock was moved, although waiters watch the lock's words by address";
  EXPECT_EQ(header().waiters.load(), 1U);
  ASSERT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
  EXPECT_TRUE(waiting.sleep(5));
  EXPECT_EQ(waiting.once(dict, "lock", &second), HOLDFAST_OK);
  EXPECT_GT(second.sequence, lease.sequence);
  EXPECT_EQ(dict.unlock("lock", &second), HOLDFAST_OK);
}

// --- nothing live is removed ---

TEST_F(ReclaimerTest, safe_stores_and_pushes_remove_nothing) {
  const int count = fill(60);
  EXPECT_EQ(safe_set("more", value(0, 60)), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(dict.store(HOLDFAST_SAFE_ADD, "more", value(0, 60), 0, 0), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(dict.push("more", HOLDFAST_LEFT, value(0, 60)), -HOLDFAST_NO_MEMORY);
  EXPECT_EQ(safe_set(key(3), value(0, 2000)), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(dict.get(key(3)), text(value(3, 60))) << "the old value was lost";
  EXPECT_EQ(missing(0, count), 0);
  EXPECT_EQ(header().evictions.load(), 0U);
}

TEST_F(ReclaimerTest, a_safe_store_compacts_the_free_memory) {
  const int count = fill(60);
  int removed = 0;
  for (int i = 0; i < count; i += 4, ++removed) dict.remove(key(i));
  const std::uint32_t free = header().free_granules.load();
  ASSERT_GT(free, arena() / 5);
  ASSERT_EQ(safe_set("large", value(1, (free - 4) * kGranule - sizeof(Entry))), HOLDFAST_OK)
      << "the value needs all free memory, which was in " << removed << " pieces";
  EXPECT_EQ(check_segment(dict.segment()), "");
  for (int i = 0; i < count; ++i) ASSERT_EQ(dict.get(key(i)), i % 4 != 0 ? text(value(i, 60)) : nothing());
  EXPECT_EQ(dict.get("large"), text(value(1, (free - 4) * kGranule - sizeof(Entry))));
  EXPECT_EQ(header().evictions.load(), 0U);
}

TEST_F(ReclaimerTest, an_impossible_request_is_remembered_until_enough_memory_is_freed) {
  // There are gaps of 7 granules between entries of 41 granules, which do not fit into any gap.
  int count = 0;
  while (safe_set(key(count), value(count, count % 2 == 0 ? 600 : 60)) == HOLDFAST_OK) ++count;
  while (safe_set("rest", value(0, 0)) == HOLDFAST_OK && dict.remove("rest") == HOLDFAST_OK &&
         safe_set(key(count), value(count, 0)) == HOLDFAST_OK)
    ++count;
  int gaps = 0;
  for (int i = 1; i + 2 < count && dict.get(key(i + 1)).text.size() == 600; i += 2, ++gaps) dict.remove(key(i));
  ASSERT_GT(gaps, 30);
  ASSERT_EQ(safe_set("large", value(0, 500)), HOLDFAST_NO_MEMORY) << "no single gap is large enough";
  EXPECT_EQ(header().no_run.load(), granules_for(5, 500));
  ASSERT_EQ(safe_set("large", value(0, 500)), HOLDFAST_NO_MEMORY);
  EXPECT_EQ(safe_set("small", value(0, 60)), HOLDFAST_OK) << "the remembered refusal must not affect smaller requests";
  dict.remove(key(20));
  EXPECT_EQ(safe_set("large", value(0, 500)), HOLDFAST_OK);
}

// --- what fits ---

TEST_F(ReclaimerTest, a_value_of_a_quarter_of_the_arena_always_fits) {
  for (const std::size_t small : {1U, 60U, 300U, 1500U, 5000U}) {
    fill(small);
    for (int round = 0; round < 4; ++round)
      for (int i = 0; i < 400; ++i) dict.get(key(i));  // all entries were used
    const std::size_t quarter = arena() / 4 * kGranule - sizeof(Entry) - 16;
    for (int i = 0; i < 9; ++i) {
      set_evicts("quarter-" + std::to_string(i), value(i, quarter));
      EXPECT_EQ(dict.get("quarter-" + std::to_string(i)), text(value(i, quarter)));
    }
  }
}

TEST_F(ReclaimerTest, a_value_may_need_all_memory_and_the_overwritten_entry_is_evicted_last) {
  const std::uint64_t most = dict.dictionary().room_for_one() - key(0).size();
  fill(60);
  EXPECT_TRUE(set_evicts(key(0), value(1, most)));
  EXPECT_EQ(dict.get(key(0)), text(value(1, most)));
  EXPECT_EQ(dict.keys().size(), 1U);
  EXPECT_FALSE(set_evicts(key(0), value(2, most))) << "only the old value itself had to be evicted";
  EXPECT_EQ(dict.get(key(0)), text(value(2, most)));
  EXPECT_TRUE(set_evicts("other", value(2, 60)));
}

TEST_F(ReclaimerTest, the_old_value_is_not_evicted_for_the_new_one_while_others_can_be) {
  fill(60);
  cool();
  const auto at_the_hand = [&] {
    const std::uint32_t hand = header().hand.load();
    Entry& entry = shard().entry(hand != 0 ? hand : 1);
    const std::uint32_t length = Entry::key_length_of(entry.shape.load());
    return std::string(reinterpret_cast<const char*>(Shard::key_words(entry)), length);
  };
  for (int i = 0; i < 20; ++i) {
    const std::string next = at_the_hand();
    ASSERT_TRUE(set_evicts(next, value(i, 61)))
        << "a different entry must be evicted, so that the old value exists until the new one does";
    ASSERT_EQ(dict.get(next), text(value(i, 61)));
    fill(60, 10000 + 10 * i);
    cool();
  }
}

// --- lists ---

TEST_F(ReclaimerTest, a_list_that_is_moved_keeps_its_elements_and_their_order) {
  std::vector<std::string> elements;
  const int count = fill(60);
  for (int i = 0; i < count; i += 2) dict.remove(key(i));
  for (int i = 0; i < 100; ++i) {
    elements.push_back(value(i, static_cast<std::size_t>(i) % 50));
    ASSERT_EQ(dict.push("list", HOLDFAST_RIGHT, elements.back()), i + 1);
  }
  std::vector<std::uint32_t> before;
  for (std::uint32_t node = place_of("list").view.list_ends().first; before.size() < 100;
       node = reinterpret_cast<ListNode&>(shard().entry(node)).next.load())
    before.push_back(node);
  for (int i = 1; i < count; i += 4) dict.remove(key(i));
  const std::uint32_t free = header().free_granules.load();
  ASSERT_EQ(safe_set("large", value(1, (free - 4) * kGranule - sizeof(Entry))), HOLDFAST_OK);
  EXPECT_EQ(check_segment(dict.segment()), "");
  std::uint32_t node = place_of("list").view.list_ends().first;
  int moved = 0;
  for (const std::uint32_t old : before) {
    moved += node != old ? 1 : 0;
    node = reinterpret_cast<ListNode&>(shard().entry(node)).next.load();
  }
  EXPECT_GT(moved, 10);
  ASSERT_EQ(dict.llen("list"), 100);
  for (const std::string& element : elements) ASSERT_EQ(dict.pop("list", HOLDFAST_LEFT), text(element));
}

TEST_F(ReclaimerTest, a_list_is_evicted_as_a_whole) {
  int length = 0;
  while (dict.push("list", HOLDFAST_RIGHT, value(length, 60)) > 0) ++length;
  ASSERT_GT(length, 300);
  cool();
  EXPECT_TRUE(set_evicts("large", value(1, arena() / 2 * kGranule)));
  EXPECT_EQ(dict.llen("list"), 0);
  EXPECT_EQ(header().evictions.load(), 1U);
  EXPECT_EQ(count_shard(shard()).nodes, 0U);
}

TEST_F(ReclaimerTest, a_used_list_outlives_unused_entries) {
  for (int i = 0; i < 50; ++i) ASSERT_EQ(dict.push("list", HOLDFAST_RIGHT, value(i, 20)), i + 1);
  const int count = fill(60);
  for (int i = 0; i < 10 * count; ++i) {
    ASSERT_EQ(dict.set(key(count + i), value(i, 60)), HOLDFAST_OK);
    if (i % 50 == 0) {
      ASSERT_EQ(dict.llen("list"), 50);
    }
  }
}

}  // namespace
}  // namespace holdfast::test
