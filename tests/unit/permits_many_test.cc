// Tests keys with many holders of permits: shortcuts lead to each holder, walks over all holders are rare, and damage
// does not hide any holder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "dict/holder_list.h"
#include "dict/repair.h"
#include "platform/platform.h"
#include "support/in_time.h"
#include "support/permits.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint32_t kMany = 3000;  // enough holders that some have two shortcuts
constexpr std::uint32_t kSome = 200;   // more holders than one attempt checks
constexpr std::uint32_t kTotal = 1U << 20;

class ManyHoldersTest : public DictTest {
 protected:
  ManyHoldersTest() : DictTest({.size = 900000}), random_(seed_of_run()) {}

  int acquire(holdfast_lease* lease, double exptime = 0, std::uint32_t want = 1, std::uint32_t total = kTotal) {
    return dict.try_permits("key", HOLDFAST_SEMAPHORE, want, total, exptime, lease);
  }
  std::vector<holdfast_lease> acquired(std::uint32_t count) {
    std::vector<holdfast_lease> leases(count);
    for (holdfast_lease& lease : leases) EXPECT_EQ(acquire(&lease), HOLDFAST_OK);
    return leases;
  }
  PermitFields& fields() { return place_of("key").view.permits(); }
  /// Returns the holders, youngest first.
  std::vector<EntryView> holders() {
    std::vector<EntryView> result;
    EntryView view{};
    for (std::uint32_t block = fields().holders.load(); block != 0; block = view.entry->next.load()) {
      EXPECT_TRUE(shard().inspect(block, view));
      result.push_back(view);
    }
    return result;
  }
  /// Makes the next check of all holders due now, or not for a while.
  void rest(bool due) {
    fields().looked.store(due ? 0 : static_cast<std::uint32_t>(platform::coarse_monotonic_ns() / 1'000'000));
    if (!due) fields().next_end.store(kNever);
  }
  /// Runs `call` so soon after a check that no check is due. Returns the result of `call`.
  template <class Call>
  int without_look(Call&& call) {
    for (;;) {
      rest(false);
      const double start = holdfast_now();
      const int code = call();
      if (holdfast_now() - start < 0.5e-3 * kMany / 64) return code;
    }
  }
  /// Retries for some seconds while the request is refused.
  int acquire_eventually(std::uint32_t want, std::uint32_t total) {
    holdfast_lease lease{};
    int code = HOLDFAST_LOCKED;
    for (const double end = holdfast_now() + 60; code == HOLDFAST_LOCKED && holdfast_now() < end; ::usleep(1000))
      code = acquire(&lease, 0, want, total);
    return code;
  }
  std::uint64_t repairs() { return dict.stats().repairs; }

  std::mt19937_64 random_;
};

/// For tests with time limits, which may fail on a slow machine.
class ManyEndsTest : public ManyHoldersTest {};

// --- shortcuts ---

TEST(shortcut_levels, are_spread_evenly_over_consecutive_numbers_and_over_every_nth_number) {
  for (const std::uint64_t step : {1, 2, 3, 32, 987, 1024, 10946}) {
    std::uint32_t levels[kShortcuts + 1] = {};
    std::uint32_t gap = 0;
    std::uint32_t longest = 0;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      const std::uint32_t level = shortcut_levels(1'000'000 + i * step);
      ++levels[level];
      gap = level != 0 ? 0 : gap + 1;
      longest = std::max(longest, gap);
    }
    EXPECT_NEAR(levels[1] + levels[2], 100'000.0 / 32, 400) << step;
    EXPECT_NEAR(levels[2], 100'000.0 / 1024, 50) << step;
    EXPECT_LT(longest, 600U) << step;
  }
  EXPECT_EQ(shortcut_levels(0), 0U);
}

TEST_F(ManyHoldersTest, each_lease_is_found_until_it_is_released) {
  std::vector<holdfast_lease> leases = acquired(kMany);
  EXPECT_EQ(check_shard(shard()), "");
  for (std::uint32_t step = 0; !leases.empty(); ++step) {
    holdfast_lease& lease = leases[random_() % leases.size()];
    ASSERT_EQ(dict.renew("key", lease, 500), HOLDFAST_OK);
    ASSERT_GT(dict.remaining("key", lease), 0);
    ASSERT_EQ(dict.adopt("key", lease, 5), HOLDFAST_OK);
    ASSERT_EQ(dict.keep("key", lease, 1), HOLDFAST_OK);
    if (step % 3 == 0) {
      ASSERT_EQ(dict.explain("key", lease, "of many"), HOLDFAST_OK);
    }
    holdfast_lease copy = lease;
    ASSERT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("key", &copy), HOLDFAST_NOT_OWNER);
    lease = leases.back();
    leases.pop_back();
    if (step % 7 == 0) {
      leases.emplace_back();
      ASSERT_EQ(acquire(&leases.back()), HOLDFAST_OK);
    }
    if (step % 250 == 0) {
      ASSERT_EQ(check_shard(shard()), "");
    }
  }
  EXPECT_EQ(dict.used("key"), 0);
  EXPECT_EQ(repairs(), 0U);
}

TEST_F(ManyHoldersTest, finding_a_lease_and_refusing_an_attempt_need_no_walk_over_all_holders) {
  std::vector<holdfast_lease> leases = acquired(kMany);
  const std::vector<EntryView> views = holders();
  // A walk along the chain cannot pass this holder, and reports damage when it reaches it.
  const auto broken = std::find_if(views.begin() + 5, views.end(), [](const EntryView& view) {
    return shortcut_levels(view.holder().sequence.load()) == 0;
  });
  const std::uint32_t link = broken->entry->next.exchange(0xFFFFFFFF);
  const auto behind = std::find_if(
      broken, views.end(), [](const EntryView& view) { return shortcut_levels(view.holder().sequence.load()) != 0; });
  ASSERT_NE(behind, views.end());
  const std::size_t oldest = static_cast<std::size_t>(views.end() - behind) - 1;
  ASSERT_GT(oldest, 100U);
  for (int i = 0; i < 100; ++i) {
    holdfast_lease lease = leases[static_cast<std::size_t>(i)];
    EXPECT_EQ(dict.renew("key", lease, 500), HOLDFAST_OK);
    EXPECT_GT(dict.remaining("key", lease), 0);
    EXPECT_EQ(dict.adopt("key", lease, 5), HOLDFAST_OK);
    EXPECT_EQ(dict.keep("key", lease, 1), HOLDFAST_OK);
    EXPECT_EQ(dict.explain("key", lease, "behind"), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
    holdfast_lease gone = leases[static_cast<std::size_t>(i)];
    EXPECT_EQ(dict.renew("key", gone, 500), HOLDFAST_NOT_OWNER);
    holdfast_lease none{};
    EXPECT_EQ(without_look([&] { return acquire(&none, 0, kTotal); }), HOLDFAST_LOCKED);
  }
  EXPECT_EQ(repairs(), 0U);
  broken->entry->next.store(link);
}

// --- checks ---

TEST_F(ManyHoldersTest, a_dead_processs_permits_among_many_are_freed) {
  const std::vector<holdfast_lease> older = acquired(kSome / 2);
  Resident child([&] { acquired(1); });
  const std::vector<holdfast_lease> younger = acquired(kSome / 2);
  child.kill_and_wait();
  EXPECT_EQ(acquire_eventually(1, kSome + 1), HOLDFAST_OK);
}

TEST_F(ManyHoldersTest, a_waiter_repeatedly_gets_a_dead_processs_permits) {
  Resident child([&] {
    holdfast_lease lease{};
    for (std::uint32_t i = 0; i < kSome; ++i) dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, 0, &lease);
  });
  Writer writer(dict);
  ASSERT_EQ(writer.wait(), HOLDFAST_LOCKED);
  child.kill_and_wait();
  EXPECT_TRUE(writer.get());
}

TEST_F(ManyHoldersTest, a_due_check_finds_all_permits_of_dead_processes) {
  for (int i = 0; i < 3; ++i) {
    Resident([&] { acquired(kMany / 3); }).kill_and_wait();
  }
  rest(true);
  holdfast_lease lease{};
  EXPECT_EQ(acquire(&lease, 0, kTotal), HOLDFAST_OK);
  EXPECT_EQ(count_shard(shard()).holders, 1U);
}

TEST_IN_TIME(ManyEndsTest, expired_permits_among_many_are_freed) {
  holdfast_lease lease{};
  ASSERT_EQ(acquire(&lease, 0.02), HOLDFAST_OK);
  std::vector<holdfast_lease> leases = acquired(kSome);
  EXPECT_EQ(acquire(&lease, 0, 1, kSome + 1), HOLDFAST_LOCKED);
  EXPECT_EQ(acquire_eventually(1, kSome + 1), HOLDFAST_OK);
}

TEST_IN_TIME(ManyEndsTest, a_waiter_sleeps_until_one_of_many_grants_ends) {
  holdfast_lease lease{};
  ASSERT_EQ(acquire(&lease, 0.5), HOLDFAST_OK);
  std::vector<holdfast_lease> leases = acquired(kSome);
  rest(true);
  PermitsWaiter waiter(dict, HOLDFAST_SEMAPHORE, 3);  // of 3
  ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED);
  EXPECT_LT(waiter.sleep_time(), 0.9);
  ASSERT_EQ(waiter.wait(), HOLDFAST_LOCKED) << "the waiter must wait, because no check is due";
  EXPECT_LT(waiter.sleep_time(), 0.9);
}

TEST_F(ManyHoldersTest, a_flush_or_an_end_of_the_entry_ends_all_grants) {
  holdfast_lease lease{};
  std::vector<holdfast_lease> leases = acquired(kSome);
  dict.flush_all();
  EXPECT_EQ(acquire(&lease, 0, kTotal), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
  leases = acquired(kSome);
  dict.expire("key", 0.001);
  ::usleep(5000);
  EXPECT_EQ(acquire(&lease, 0, kTotal), HOLDFAST_OK);
}

// --- damage ---

TEST_F(ManyHoldersTest, an_overwritten_number_hides_no_other_lease) {
  for (int i = 0; i < 40; ++i) {
    dict.remove("key");
    std::vector<holdfast_lease> leases = acquired(kSome);
    const std::vector<EntryView> views = holders();
    const std::size_t hit = random_() % kSome;
    const std::size_t other = (hit + 4 + random_() % (kSome - 8)) % kSome;
    Word64& number = views[kSome - 1 - hit].holder().sequence;
    const std::uint64_t old = number.load();
    const std::uint64_t values[] = {
        0, 1, ~std::uint64_t{0}, leases[other].sequence, leases[other].sequence + 1, old ^ 4U << random_() % 12};
    number.store(values[random_() % std::size(values)]);
    SCOPED_TRACE(std::to_string(old) + " became " + std::to_string(number.load()));
    for (int j = 0; j < 60; ++j) {
      const std::size_t place = j == 0 ? other : random_() % kSome;
      if (place == hit) continue;
      EXPECT_EQ(dict.renew("key", leases[place], 500), HOLDFAST_OK) << place;
      EXPECT_GT(dict.remaining("key", leases[place]), 0) << place;
    }
    EXPECT_EQ(dict.used("key"), static_cast<int>(kSome)) << "the refused release took a permit from its holder";
    audit(shard(), dict.segment().seed());
    repair(shard());
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(dict.used("key"), static_cast<int>(kSome));
    for (std::size_t place = 0; place < kSome; ++place) {
      if (place == hit) continue;
      EXPECT_EQ(dict.unlock("key", &leases[place]), HOLDFAST_OK) << place;
    }
  }
}

TEST_F(ManyHoldersTest, an_overwritten_shortcut_hides_no_lease) {
  const std::vector<holdfast_lease> leases = acquired(kMany);
  for (int i = 0; i < 60; ++i) {
    const std::vector<EntryView> views = holders();
    const EntryView& view = views[random_() % views.size()];
    Word32* const links[] = {&shortcut_of(*view.entry, 1), &shortcut_of(*view.entry, 2), &fields().shortcuts[0],
                             &fields().shortcuts[1]};
    const std::uint32_t other = views[random_() % views.size()].entry->next.load();
    const std::uint32_t values[] = {0, 1, 0xFFFFFFFF, shard().granules() - 1, other, fields().holders.load()};
    Word32& link = *links[random_() % std::size(links)];
    const std::uint32_t old = link.exchange(values[random_() % std::size(values)]);
    SCOPED_TRACE(std::to_string(old) + " became " + std::to_string(link.load()));
    EXPECT_EQ(audit(shard(), dict.segment().seed()), link.load() == old)
        << "the audit of the shard must find the overwritten link";
    for (int j = 0; j < 60; ++j) {
      const holdfast_lease& lease = leases[random_() % leases.size()];
      EXPECT_EQ(dict.renew("key", lease, 500), HOLDFAST_OK);
      EXPECT_GT(dict.remaining("key", lease), 0);
    }
    EXPECT_EQ(repair(shard()), 0U);
    EXPECT_EQ(check_shard(shard()), "");
  }
  EXPECT_EQ(dict.used("key"), static_cast<int>(kMany));
}

TEST_F(ManyHoldersTest, holders_with_overwritten_shortcuts_can_still_be_released) {
  for (int i = 0; i < 30; ++i) {
    dict.remove("key");
    std::vector<holdfast_lease> leases = acquired(kSome);
    for (const EntryView& view : holders()) {
      const std::uint32_t values[] = {0, 0xFFFFFFFF, fields().holders.load()};
      if (random_() % 50 == 0) shortcut_of(*view.entry, 1 + random_() % 2).store(values[random_() % 3]);
    }
    std::shuffle(leases.begin(), leases.end(), random_);
    for (holdfast_lease& lease : leases) EXPECT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
    EXPECT_EQ(dict.used("key"), 0);
    repair(shard());
    EXPECT_EQ(check_shard(shard()), "");
  }
}

TEST_F(ManyHoldersTest, a_repair_removes_only_the_number_that_is_out_of_order) {
  std::vector<holdfast_lease> leases = acquired(5);
  const std::vector<EntryView> views = holders();
  const auto number = [&](std::size_t i) -> Word64& { return views[i].holder().sequence; };
  const std::uint64_t right[] = {number(0).load(), number(1).load(), number(2).load(), number(3).load(),
                                 number(4).load()};
  const std::uint64_t values[] = {1, right[0] + 100, right[4], right[0]};
  for (std::size_t i = 1; i < 4; ++i)
    for (const std::uint64_t value : values) {
      if (i == 3 && value == right[4]) continue;  // two numbers are equal, and nothing shows which one is wrong
      number(i).store(value);
      EXPECT_EQ(repair(shard()), 0U) << "cuts";
      for (std::size_t j = 0; j < 5; ++j)
        EXPECT_EQ(number(j).load(), i == j ? 0 : right[j]) << i << " " << value << " " << j;
      number(i).store(right[i]);
      repair(shard());
    }
}

TEST_F(ManyHoldersTest, a_grant_removes_earlier_holders_with_larger_numbers) {
  std::vector<holdfast_lease> leases = acquired(40);
  const std::vector<EntryView> views = holders();
  views.front().holder().sequence.store(~std::uint64_t{0} - 5);
  for (const holdfast_lease& lease : acquired(3)) leases.push_back(lease);
  EXPECT_EQ(views.front().holder().sequence.load(), 0U);
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(dict.unlock("key", &leases[i]), i == 39 ? HOLDFAST_NOT_OWNER : HOLDFAST_OK) << i;
  EXPECT_EQ(dict.used("key"), 1);
  repair(shard());
}

TEST_F(ManyHoldersTest, a_check_always_ends_whatever_number_ends_its_part) {
  const std::vector<holdfast_lease> leases = acquired(kMany);
  const std::vector<EntryView> views = holders();
  for (std::size_t i = 1; i < 600; ++i) {
    Word64& number = views[i].holder().sequence;
    const std::uint64_t old = number.exchange(~std::uint64_t{0} - 5);
    rest(true);
    holdfast_lease lease{};
    ASSERT_EQ(acquire(&lease, 0, kTotal), HOLDFAST_LOCKED);
    number.store(old);
    repair(shard());
  }
  EXPECT_EQ(dict.used("key"), static_cast<int>(kMany));
}

TEST_F(ManyHoldersTest, overwritten_counts_and_times_block_nobody) {
  for (int damage = 0; damage < 8; ++damage) {
    SCOPED_TRACE(damage);
    dict.remove("key");
    holdfast_lease lease{};
    ASSERT_EQ(acquire(&lease, 0.02), HOLDFAST_OK);
    std::vector<holdfast_lease> leases = acquired(kSome);
    rest(false);
    if (damage == 0) fields().number.store(0);
    if (damage == 1) fields().number.store(0xFFFFFFFF);
    if (damage == 2) fields().looked.store(0xFFFFFFFF);
    if (damage == 3) fields().looked.store(static_cast<std::uint32_t>(platform::monotonic_ns() / 1'000'000) + 500);
    if (damage == 4) fields().next_end.store(kNever);
    if (damage == 5) fields().next_end.store(0);
    if (damage == 6) fields().used.store(0xFFFFFFFF);
    if (damage == 7) fields().used.store(0);
    EXPECT_EQ(acquire_eventually(1, kSome + 1), HOLDFAST_OK);
    EXPECT_EQ(acquire(&lease, 0, 2, kSome + 1), HOLDFAST_LOCKED) << "a permit too many was granted";
    repair(shard());
  }
}

}  // namespace
}  // namespace holdfast::test
