// Tests which coroutine the deadlock search treats as a lease's holder: the coroutine that was named with the grant or
// with holdfast_lock_adopt. Uses the C ABI.
#include <gtest/gtest.h>

#include <string>

#include "support/dict_test.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

/// The ways in which a key is held exclusively: as a lock, or by a writer of an rwlock.
enum class Kind { lock, rwlock };

/// A coroutine that waits in its own loop.
class Task : public Parked {
 public:
  explicit Task(std::uint32_t number) {
    wait_.task = number;
    wait_.holds = 1;
  }

  std::uint32_t number() const { return wait_.task; }
  void stops_its_lua_state() { wait_.holds = 2; }

  int take(Dict& dict, Kind kind, const std::string& key, std::uint32_t holder, double exptime = 0) {
    return kind == Kind::lock ? holdfast_lock_try(dict.handle, key.data(), key.size(), exptime, holder, 0, &lease)
                              : holdfast_permits_try(dict.handle, key.data(), key.size(), HOLDFAST_RWLOCK,
                                                     HOLDFAST_ALL_PERMITS, 0, exptime, holder, 0, &lease);
  }
  /// Makes one step of a wait for the key.
  int wait(Dict& dict, Kind kind, const std::string& key, std::uint32_t holder, holdfast_lease* granted) {
    wait_.holder_task = holder;
    sleep(0.002);
    return kind == Kind::lock ? wait_for_lock(dict, key, granted, 0)
                              : holdfast_permits_wait(dict.handle, key.data(), key.size(), HOLDFAST_RWLOCK,
                                                      HOLDFAST_ALL_PERMITS, 0, 0, &wait_, granted);
  }
  int adopt(Dict& dict, const std::string& key, std::uint32_t holder) { return dict.adopt(key, lease, holder); }

  holdfast_lease lease{};
};

class AdoptTest : public DictTest, public ::testing::WithParamInterface<Kind> {
 protected:
  /// Makes each task take its key, and names the given tasks as the keys' holders.
  void take_both(std::uint32_t holder_of_a, std::uint32_t holder_of_b) {
    ASSERT_EQ(a.take(dict, GetParam(), "a", holder_of_a), HOLDFAST_OK);
    ASSERT_EQ(b.take(dict, GetParam(), "b", holder_of_b), HOLDFAST_OK);
  }

  /// Makes each task wait for the other task's key. Returns whether one of them gets a deadlock error within this time.
  bool is_told(double seconds) {
    const double end = now() + seconds;
    bool told = false;
    while (!told && now() < end) {
      holdfast_lease none{};
      const int of_a = a.wait(dict, GetParam(), "b", a.number(), &none);
      const int of_b = b.wait(dict, GetParam(), "a", b.number(), &none);
      told = of_a == HOLDFAST_DEADLOCK || of_b == HOLDFAST_DEADLOCK;
    }
    a.leave(dict, "b");
    b.leave(dict, "a");
    return told;
  }

  static constexpr double kSurely = 20;   // seconds within which a cycle is always reported
  static constexpr double kHardly = 0.3;  // seconds within which a cycle would usually be reported

  const std::uint32_t state = holdfast_task_ids();
  Task a{state + 1};
  Task b{state + 2};
};

INSTANTIATE_TEST_SUITE_P(kinds, AdoptTest, ::testing::Values(Kind::lock, Kind::rwlock),
                         [](const auto& tested) { return tested.param == Kind::lock ? "lock" : "rwlock"; });

TEST_P(AdoptTest, a_cycle_of_named_holders_is_reported) {
  take_both(a.number(), b.number());
  EXPECT_TRUE(is_told(kSurely));
}

TEST_P(AdoptTest, a_grant_without_a_holder_is_in_no_cycle_until_a_task_adopts_it) {
  take_both(0, b.number());
  EXPECT_FALSE(is_told(kHardly));
  EXPECT_EQ(a.adopt(dict, "a", a.number()), HOLDFAST_OK);
  EXPECT_TRUE(is_told(kSurely));
}

TEST_P(AdoptTest, a_lock_that_was_given_away_is_in_no_cycle) {
  take_both(a.number(), b.number());
  EXPECT_EQ(a.adopt(dict, "a", 0), HOLDFAST_OK);
  EXPECT_FALSE(is_told(kHardly)) << "no task has adopted the lock";
  EXPECT_EQ(a.adopt(dict, "a", state + 3), HOLDFAST_OK);
  EXPECT_FALSE(is_told(kHardly)) << "the task that adopted the lock does not wait";
}

TEST_P(AdoptTest, a_lock_that_any_coroutine_may_release_is_in_a_cycle_when_its_whole_lua_state_waits) {
  take_both(state, b.number());
  EXPECT_FALSE(is_told(kHardly));
  a.stops_its_lua_state();
  EXPECT_TRUE(is_told(kSurely));
}

TEST_P(AdoptTest, a_waiter_names_the_future_holder) {
  for (const bool named : {false, true}) {
    take_both(0, b.number());
    Task other{state + 4};
    holdfast_lease granted{};
    ASSERT_EQ(other.wait(dict, GetParam(), "a", 0, &granted), HOLDFAST_LOCKED);
    other.leave(dict, "a");
    ASSERT_EQ(a.wait(dict, GetParam(), "a", named ? a.number() : 0, &granted), HOLDFAST_LOCKED);
    ASSERT_EQ(dict.unlock("a", &a.lease), HOLDFAST_OK);
    int code = HOLDFAST_LOCKED;
    for (const double end = now() + kSurely; code == HOLDFAST_LOCKED && now() < end;)
      code = a.wait(dict, GetParam(), "a", named ? a.number() : 0, &a.lease);
    ASSERT_EQ(code, HOLDFAST_OK);
    EXPECT_EQ(is_told(named ? kSurely : kHardly), named);
    ASSERT_EQ(dict.unlock("a", &a.lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("b", &b.lease), HOLDFAST_OK);
  }
}

TEST_P(AdoptTest, only_held_locks_can_be_adopted) {
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "nothing";
  ASSERT_EQ(a.take(dict, GetParam(), "a", 0, 50), HOLDFAST_OK);
  EXPECT_EQ(a.adopt(dict, "", 1), HOLDFAST_INVALID);
  EXPECT_EQ(a.adopt(dict, "another", 1), HOLDFAST_NOT_OWNER);
  in_process([&] { EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "a forked child adopted the lock"; });
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_OK);
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_OK);

  holdfast_lease released = a.lease;
  ASSERT_EQ(dict.unlock("a", &released), HOLDFAST_OK);
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "released";
  ASSERT_EQ(a.take(dict, GetParam(), "a", 0, 0.001), HOLDFAST_OK);
  sleep_ms(20);
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "expired";
  ASSERT_EQ(a.take(dict, GetParam(), "a", 0, 50), HOLDFAST_OK);
  ASSERT_EQ(dict.flush_all(), HOLDFAST_OK);
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "flushed";
  ASSERT_EQ(dict.set("a", "a value"), HOLDFAST_OK);
  EXPECT_EQ(a.adopt(dict, "a", 1), HOLDFAST_NOT_OWNER) << "the key has a value, not a lock";
}

}  // namespace
}  // namespace holdfast::test
