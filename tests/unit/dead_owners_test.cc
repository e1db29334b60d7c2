// Tests that memory held by dead processes can be allocated again, even if nobody requests their keys, but that memory
// held by live processes cannot.
#include "dict/dead_owners.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <string>
#include <vector>

#include "support/dict_test.h"
#include "support/started.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

class DeadOwnersTest : public DictTest {
 protected:
  DeadOwnersTest() : DictTest({.size = kSize}) {}

  static constexpr std::uint64_t kSize = 100 << 10;
  /// More locks than fit into the dictionary.
  static constexpr int kMany = 1200;
  static constexpr int kShared = 9 * kMany;  // a key with permits that many processes share

  void TearDown() override {
    EXPECT_EQ(dict.stats().repairs, 0U) << "a shard was repaired without damage";
    DictTest::TearDown();
  }

  static std::string key(int i) { return "request-" + std::to_string(100000 + i); }

  int take(int i) {
    holdfast_lease lease{};
    return dict.try_lock(key(i), 0, &lease);
  }
  int share(int i) {
    holdfast_lease lease{};
    return dict.try_permits(key(i), HOLDFAST_RWLOCK, 1, 0, 0, &lease);
  }
  /// Starts a process that takes keys with `take(i)`, which returns a code, and kills the process. Returns the first
  /// code that is not OK.
  template <class Take>
  static int killed_with(int first, int count, Take&& take) {
    Child child([&](Channel& parent) {
      int code = HOLDFAST_OK;
      for (int i = first; i < first + count && code == HOLDFAST_OK; ++i) code = take(i);
      parent.say(std::to_string(code));
      parent.hear();
      return 0;
    });
    const int code = std::stoi(child.hear());
    child.kill_and_wait();
    return code;
  }
};

TEST_F(DeadOwnersTest, endless_locks_of_killed_processes_never_fill_a_dictionary) {
  constexpr int kEach = 100;
  for (int first = 0; first < 4 * kMany; first += kEach)
    ASSERT_EQ(killed_with(first, kEach, [&](int i) { return take(i); }), HOLDFAST_OK) << "after " << first << " locks";
}

// The dictionary was adopted from an earlier world, so a dead process's token may be above the tokens of this world.
TEST_F(DeadOwnersTest, a_live_process_does_not_hide_a_dead_one_that_had_its_slot) {
  World& world = **World::current();
  const Token living = world.token();
  const Token dead = make_token(slot_of(living), generation_of(living) + 7);
  for (const int first : {1, 2}) {
    ASSERT_EQ(take(1), HOLDFAST_OK);
    ASSERT_EQ(take(2), HOLDFAST_OK);
    LockFields& lock = place_of(key(first)).view.lock();
    lock.word.store(LockWord::make(owner_bits(dead), load_word_of(lock).turn()).bits);
    lock.generation_high.store(generation_high(dead));
    const DeadOwners owners(shard(), world, dict.segment().flush_epoch());
    EXPECT_TRUE(owners.has(dead));
    EXPECT_FALSE(owners.has(living));
    dict.remove(key(1));
    dict.remove(key(2));
  }
}

// There are more owners than one attempt may check.
TEST_F(DeadOwnersTest, many_killed_processes_with_a_few_locks_each_never_fill_a_dictionary) {
  constexpr int kEach = 6;
  for (int first = 0; first < 2 * kMany; first += kEach)
    ASSERT_EQ(killed_with(first, kEach, [&](int i) { return take(i); }), HOLDFAST_OK) << "after " << first << " locks";
}

TEST_F(DeadOwnersTest, permits_and_reasons_of_dead_processes_are_reclaimed_too) {
  constexpr int kEach = 60;
  const auto with_note = [&](int i) {
    holdfast_lease lease{};
    const int code = dict.try_lock(key(i), 0, &lease);
    return code == HOLDFAST_OK ? dict.explain(key(i), lease, std::string(120, 'w')) : code;
  };
  for (int first = 0; first < kMany; first += 2 * kEach) {
    ASSERT_EQ(killed_with(first, kEach, [&](int i) { return share(i); }), HOLDFAST_OK) << "after " << first;
    ASSERT_EQ(killed_with(first + kEach, kEach, with_note), HOLDFAST_OK) << "after " << first;
  }
}

TEST_F(DeadOwnersTest, a_live_process_never_loses_its_locks_even_while_it_is_stopped) {
  constexpr int kLiving = 150;
  Started stopped("0", [&](Channel& parent) {
    std::vector<holdfast_lease> leases(kLiving);
    int bad = 0;
    for (int i = 0; i < kLiving; ++i) bad += dict.try_lock(key(i), 0, &leases[i]) != HOLDFAST_OK ? 1 : 0;
    bad += share(kShared) != HOLDFAST_OK ? 1 : 0;
    parent.say(std::to_string(bad));
    parent.hear();
    for (int i = 0; i < kLiving; ++i) bad += dict.unlock(key(i), &leases[i]) != HOLDFAST_OK ? 1 : 0;
    parent.say(std::to_string(bad));
    return 0;
  });
  stopped.stop();
  // Each dead process has one permit of the stopped process's key.
  for (int first = kLiving; first < 3 * kMany; first += 100)
    ASSERT_EQ(killed_with(first, 100, [&](int i) { return share(kShared) != HOLDFAST_OK ? share(kShared) : take(i); }),
              HOLDFAST_OK);
  for (int i = 0; i < kLiving; ++i) ASSERT_EQ(take(i), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.flush_expired(), 0);
  EXPECT_EQ(dict.used(key(kShared)), 1);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.ask("go on"), "0");
}

TEST_F(DeadOwnersTest, a_dictionary_full_of_locks_of_live_processes_reports_no_memory) {
  int code = HOLDFAST_OK;
  int count = 0;
  for (; code == HOLDFAST_OK && count < kMany; ++count) code = take(count);
  EXPECT_EQ(code, HOLDFAST_NO_MEMORY);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(take(kMany + i), HOLDFAST_NO_MEMORY);
  for (int i = 0; i < count - 1; ++i) ASSERT_EQ(take(i), HOLDFAST_LOCKED);
}

TEST_F(DeadOwnersTest, flush_expired_frees_the_memory_of_dead_processes) {
  const std::uint64_t before = dict.free_space();
  ASSERT_EQ(killed_with(0, 300, [&](int i) { return take(i); }), HOLDFAST_OK);
  ASSERT_EQ(killed_with(300, 100, [&](int i) { return share(i); }), HOLDFAST_OK);
  ASSERT_LT(dict.free_space(), before);
  EXPECT_EQ(dict.flush_expired(), 0) << "flush_expired must not count the dead processes' locks as expired values";
  EXPECT_EQ(dict.free_space(), before);
}

TEST_F(DeadOwnersTest, values_are_not_evicted_while_dead_processes_hold_memory) {
  ASSERT_EQ(killed_with(0, 500, [&](int i) { return take(i); }), HOLDFAST_OK);
  int code = HOLDFAST_OK;
  for (int i = 0; i < 500 && code == HOLDFAST_OK; ++i)
    code = dict.set("value-" + std::to_string(i), std::string(60, 'v'));
  EXPECT_EQ(code, HOLDFAST_OK);
  // One or a few evictions show that memory is short.
  EXPECT_LE(dict.stats().evictions, 4U);
}

TEST_F(DeadOwnersTest, dead_waiters_leave_the_queue_of_a_lock_in_use) {
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_lock("key", 0, &lease), HOLDFAST_OK);
  {
    const Started waiter("20", [&](Channel& parent) {
      std::array<Parked, 20> waiters;
      holdfast_lease mine{};
      int queued = 0;
      for (Parked& one : waiters) queued += one.wait_for_lock(dict, "key", &mine, 0) == HOLDFAST_LOCKED ? 1 : 0;
      parent.say(std::to_string(queued));
      parent.hear();
      return 0;
    });
    EXPECT_EQ(header().waiters.load(), 20U);
  }
  EXPECT_EQ(dict.flush_expired(), 0);
  EXPECT_EQ(header().waiters.load(), 0U);
  EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
}

}  // namespace
}  // namespace holdfast::test
