// Tests when values and locks expire.
#include "dict/expiry.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "platform/platform.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

class ExpiryTest : public DictTest {
 protected:
  static constexpr double kMs = 0.001;
  /// The maximum lag of the clock for long exptimes.
  static constexpr double kTick = 0.36;

  void TearDown() override {
    holdfast_follow_clock(nullptr);
    DictTest::TearDown();
  }

  /// For many exptimes, stores a value with `store(exptime)` and polls with `is_there()` until the value is gone. The
  /// value may end up to `early` before its exptime. A call that is made later than `late` after the exptime must not
  /// find the value.
  template <class Store, class IsThere>
  void expect_ends(Store&& store, IsThere&& is_there, double early, double late) {
    for (int round = 0; round < 60; ++round) {
      const double exptime = kMs * (1 + round % 12);
      const double before = now();
      ASSERT_EQ(store(exptime), HOLDFAST_OK);
      const double after = now();
      for (;;) {
        const double asked = now();
        if (!is_there()) break;
        ASSERT_LT(asked - after, exptime + late);
      }
      ASSERT_GE(now() - before, exptime - early);
    }
  }
  /// Checks the rules for values.
  template <class Store>
  void expect_never_late(Store&& store) {
    expect_ends(
        store, [this] { return dict.ttl("k") > 0; }, kMs, 0);
  }
  /// Checks the rules for locks.
  template <class Store, class IsThere>
  void expect_never_early(Store&& store, IsThere&& is_there) {
    expect_ends(store, is_there, 0, kMs);
  }

  double sum = 0;
};

// --- the system's clock ---

TEST_F(ExpiryTest, a_value_never_exists_after_its_exptime) {
  expect_never_late([&](double exptime) { return dict.set("k", "v", exptime); });
  expect_never_late([&](double exptime) { return dict.add("k", "v", exptime); });
  expect_never_late([&](double exptime) {
    dict.set("k", "v");
    return dict.replace("k", "w", exptime);
  });
  expect_never_late([&](double exptime) {
    const Got value = text("v");
    dict.remove("k");
    return dict.cas("k", nullptr, &value, exptime);
  });
}

TEST_F(ExpiryTest, a_long_exptime_ends_at_most_a_tick_early_and_never_late) {
  // Lasts for several ticks, so that most checks fall between two ticks.
  for (const double until = now() + 0.05; now() < until;) {
    const double exptime = kLongExptime + 0.0005;
    const double before = now();
    const double end = static_cast<double>(end_of_value(exptime)) * kMs;
    ASSERT_LE(end, now() + exptime);
    ASSERT_GE(end, before + exptime - kTick - kMs);
  }
}

TEST_F(ExpiryTest, a_number_that_incr_creates_never_exists_after_its_exptime) {
  expect_never_late([&](double exptime) { return dict.incr_from("k", 1, 0, exptime, &sum); });
}

TEST_F(ExpiryTest, expire_never_ends_values_and_lists_late) {
  expect_never_late([&](double exptime) {
    dict.set("k", "v");
    return dict.expire("k", exptime);
  });
  expect_never_late([&](double exptime) {
    dict.remove("k");
    dict.push("k", HOLDFAST_RIGHT, "element");
    return dict.expire("k", exptime);
  });
}

TEST_F(ExpiryTest, all_calls_agree_on_the_end_of_a_value) {
  for (int round = 0; round < 40; ++round) {
    const Got value = text("v");
    ASSERT_EQ(dict.set("k", "v", 0.002), HOLDFAST_OK);
    const double end = now() + 0.002;
    while (now() < end) {
    }
    bool stale = false;
    ASSERT_EQ(dict.get_stale("k", &stale), value);
    ASSERT_TRUE(stale);
    ASSERT_EQ(dict.get("k"), nothing());
    ASSERT_LT(dict.ttl("k"), 0);
    ASSERT_EQ(dict.expire("k", 1), HOLDFAST_NOT_FOUND);
    ASSERT_EQ(dict.replace("k", "w"), HOLDFAST_NOT_FOUND);
    ASSERT_EQ(dict.cas("k", &value, nullptr), HOLDFAST_NOT_FOUND);
    ASSERT_EQ(dict.incr("k", 1, &sum), HOLDFAST_NOT_FOUND);
    ASSERT_TRUE(dict.keys().empty());
    ASSERT_EQ(dict.flush_expired(), 1);
  }
}

TEST_F(ExpiryTest, locks_never_end_early) {
  holdfast_lease lease{};
  holdfast_lease other{};
  const auto is_held = [&] { return dict.try_lock("lock", 0.0001, &other) == HOLDFAST_LOCKED; };
  expect_never_early(
      [&](double exptime) {
        dict.remove("lock");
        return dict.try_lock("lock", exptime, &lease);
      },
      is_held);
  expect_never_early(
      [&](double exptime) {
        dict.remove("lock");
        dict.try_lock("lock", 0, &lease);
        return dict.renew("lock", lease, exptime);
      },
      is_held);
  expect_never_early(
      [&](double exptime) {
        dict.remove("lock");
        dict.try_lock("lock", 0, &lease);
        return dict.expire("lock", exptime);
      },
      is_held);
  expect_never_early(
      [&](double exptime) {
        dict.remove("permits");
        return dict.try_permits("permits", HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, exptime, &lease);
      },
      [&] { return dict.try_permits("permits", HOLDFAST_RWLOCK, 1, 0, 0.0001, &other) == HOLDFAST_LOCKED; });
}

TEST_F(ExpiryTest, an_expired_lock_has_no_ttl) {
  holdfast_lease lease{};
  dict.try_lock("lock", 0.001, &lease);
  sleep_ms(20);
  EXPECT_EQ(dict.ttl("lock"), Dict::kNoKey);
}

TEST_F(ExpiryTest, invalid_times_are_refused_and_change_nothing) {
  dict.set("k", "v");
  for (const double bad : {-1.0, -0.001, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(dict.set("k", "w", bad), HOLDFAST_INVALID);
    EXPECT_NE(std::string(holdfast_error()).find("exptime"), std::string::npos);
    EXPECT_EQ(dict.expire("k", bad), HOLDFAST_INVALID);
    EXPECT_EQ(dict.incr_from("n", 1, 0, bad, &sum), HOLDFAST_INVALID);
  }
  EXPECT_EQ(dict.get("k"), text("v"));
  EXPECT_EQ(dict.ttl("k"), 0);
  EXPECT_EQ(dict.get("n"), nothing());
  EXPECT_EQ(dict.set("k", "w", 1e300), HOLDFAST_OK) << "so long an exptime was refused";
  EXPECT_EQ(dict.ttl("k"), 0);
  EXPECT_EQ(dict.set("k", "w", 1e-300), HOLDFAST_OK);
}

TEST_F(ExpiryTest, a_dictionary_can_be_flushed_more_often_than_an_entry_can_count) {
  dict.set("old", "v");
  Word32& epoch = dict.segment().header().flush_epoch;
  for (const std::uint32_t next : {kFlushMask / 2 - 1, kFlushMask - 1}) {
    dict.flush_all();
    epoch.store(next);
    dict.set("k", "v");
    for (int i = 0; i < 4; ++i) {
      dict.flush_all();
      EXPECT_EQ(dict.get("k"), nothing());
      EXPECT_EQ(dict.get("old"), nothing());
    }
  }
  EXPECT_EQ(dict.stats().entries, 0U) << "flushed entries must be removed before their epoch is reused";
}

// --- expired entries that still exist ---

TEST_F(ExpiryTest, a_get_stale_into_too_small_a_buffer_returns_the_needed_size) {
  dict.set("k", "twelve bytes", 0.001);
  sleep_ms(20);
  holdfast_value value{};
  int is_stale = 0;
  EXPECT_EQ(holdfast_get_stale(dict.handle, "k", 1, &value, &is_stale), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 12U);
}

TEST_F(ExpiryTest, flush_expired_with_0_removes_all_expired_entries_in_all_shards) {
  Dict wide(new_name(), {.size = 9 << 20});
  const std::uint64_t before = wide.free_space();
  for (int i = 0; i < 1000; ++i) wide.set("k" + std::to_string(i), std::string(50, 'v'));
  for (int i = 0; i < 10; ++i) wide.push("list", HOLDFAST_LEFT, "element");
  wide.flush_all();
  EXPECT_EQ(wide.flush_expired(300), 300);
  EXPECT_EQ(wide.flush_expired(0), 701) << "a list counts as one entry";
  EXPECT_EQ(wide.free_space(), before) << "the list's nodes must also be freed";
  EXPECT_EQ(wide.stats().entries, 0U);
}

// --- a loop's clock ---

class LoopClockTest : public ExpiryTest {
 protected:
  void SetUp() override {
    ExpiryTest::SetUp();
    ASSERT_EQ(holdfast_follow_clock(&clock), HOLDFAST_OK) << holdfast_error();
  }
  static std::uintptr_t now_ms() { return platform::monotonic_ns() / 1'000'000; }
  /// Advances the loop's clock, but not the system's.
  void pass(std::uintptr_t ms) { clock = clock + ms; }

  volatile std::uintptr_t clock = now_ms() - 1000;
};

TEST_F(LoopClockTest, values_expire_by_the_loops_own_clock) {
  const Got value = text("v");
  const auto expect_lives = [&](const char* how, std::uintptr_t ms) {
    EXPECT_EQ(dict.ttl("k"), static_cast<double>(ms) / 1e3) << how;
    pass(ms - 1);
    EXPECT_EQ(dict.ttl("k"), kMs) << how;
    pass(1);
    EXPECT_LT(dict.ttl("k"), 0) << how;
    EXPECT_EQ(dict.get("k"), nothing()) << how;
    EXPECT_EQ(dict.flush_expired(), 1) << how;
  };
  dict.set("k", "v", 0.02);
  expect_lives("set", 20);
  dict.add("k", "v", 0.001);
  expect_lives("add", 1);
  dict.cas("k", nullptr, &value, 0.03);
  expect_lives("cas", 30);
  dict.incr_from("k", 1, 0, 0.011, &sum);
  expect_lives("incr", 11);
  dict.set("k", "v");
  dict.expire("k", 0.05);
  expect_lives("expire", 50);
  dict.push("k", HOLDFAST_LEFT, "element");
  dict.expire("k", 0.007);
  expect_lives("a list", 7);
}

TEST_F(LoopClockTest, an_exptime_is_rounded_down_to_milliseconds_but_never_to_none) {
  dict.set("k", "v", 0.0029);
  EXPECT_EQ(dict.ttl("k"), 2 * kMs);
  dict.set("k", "v", 0.0009);
  EXPECT_EQ(dict.get("k"), nothing());
  EXPECT_EQ(dict.ttl("k"), -kMs);
  dict.set("k", "v", 1e10);
  EXPECT_EQ(dict.ttl("k"), 1e10);
}

TEST_F(LoopClockTest, a_value_with_an_exptime_as_short_as_the_loops_lag_neither_ends_at_once_nor_lasts_forever) {
  ASSERT_GE(now_ms() - clock, 1000U);
  dict.set("k", "v", 0.5);
  EXPECT_EQ(dict.get("k"), text("v"));
  clock = now_ms();
  EXPECT_EQ(dict.get("k"), nothing()) << "the value should have expired half a second ago";
}

TEST_F(LoopClockTest, locks_expire_by_the_systems_clock) {
  holdfast_lease lease{};
  holdfast_lease other{};
  expect_never_early(
      [&](double exptime) {
        dict.remove("lock");
        return dict.try_lock("lock", exptime, &lease);
      },
      [&] { return dict.try_lock("lock", 0.0001, &other) == HOLDFAST_LOCKED; });
  dict.remove("lock");
  ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(dict.expire("lock", 0.9), HOLDFAST_OK);
  EXPECT_EQ(dict.try_lock("lock", 0, &other), HOLDFAST_LOCKED) << "the lock expired by the loop's clock";
}

TEST_F(LoopClockTest, the_clock_of_a_loop_stalled_for_over_a_minute_is_not_followed) {
  clock = now_ms() - kLoopLagMaxMs - 1000;
  const double before = now();
  dict.set("k", "v", 1000);
  EXPECT_LE(dict.ttl("k"), 1000);
  EXPECT_GE(dict.ttl("k"), 1000 - (now() - before) - kTick);
  clock = now_ms() - kLoopLagMaxMs + 20'000;
  EXPECT_GT(dict.ttl("k"), 1010) << "the loop's clock is not followed again";
}

TEST_F(LoopClockTest, a_clock_that_was_set_ahead_is_not_followed) {
  clock = now_ms() + 10'000;
  dict.set("k", "v", 5);
  EXPECT_LE(dict.ttl("k"), 5);
  clock = 1'800'000'000'000;
  EXPECT_EQ(dict.get("k"), text("v"));
  EXPECT_LE(dict.ttl("k"), 5);
}

TEST_F(LoopClockTest, the_systems_clock_can_be_followed_again) {
  clock = now_ms() - 10'000;
  dict.set("k", "v", 5);
  EXPECT_EQ(dict.get("k"), text("v"));
  EXPECT_EQ(holdfast_follow_clock(nullptr), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), nothing());
}

TEST_F(LoopClockTest, a_clock_of_another_kind_is_refused) {
  const volatile std::uintptr_t since_1970 = 1'800'000'000'000;
  EXPECT_EQ(holdfast_follow_clock(&since_1970), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad clock: expected a past time in milliseconds of CLOCK_MONOTONIC");
  dict.set("k", "v", 0.5);
  EXPECT_EQ(dict.ttl("k"), 0.5) << "the previous clock is still followed";
}

}  // namespace
}  // namespace holdfast::test
