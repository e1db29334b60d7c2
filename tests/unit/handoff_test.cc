// Tests which waiter gets a free lock if some waiters are known to be slow (lock/handoff.h), and how often a busy wait
// polls. The tests put the waiters into the queue directly, so that no result depends on the speed of this process.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "dict/guard.h"
#include "lock/handoff.h"
#include "lock/lock_entry.h"
#include "support/dict_test.h"
#include "sync/spin.h"
#include "wait/promptness.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSlow = 30 * kMs;

class HandoffTest : public DictTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DictTest::SetUp());
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
    Position position{};
    ASSERT_TRUE(shard().find(Key("k", dict.segment().seed()), position));
    lock.emplace(LockEntry{dict.segment(), shard(), arena, *position.view.entry, position.view.lock(), nullptr});
    take_over(lock->fields);
  }
  void TearDown() override {
    if (!lock->is_free()) lock->free();
    while (queue().pop(world).number != 0) {
    }
    DictTest::TearDown();
  }

  WaitQueue queue() const { return lock->queue(); }
  /// Adds a waiter that has been in the queue for `ago` nanoseconds. `number` identifies the waiter.
  Waiter add(std::uint32_t number, std::uint64_t delay_ns, std::uint64_t ago = 10 * kMs, bool fair = false) {
    Waiter waiter{.owner = world.token(), .number = number, .arrival = start - ago, .fair = fair, .delay_ns = delay_ns};
    waiter.place = queue().add(waiter, 0);
    EXPECT_NE(waiter.place, 0U);
    return waiter;
  }
  void be_present(Waiter& waiter, bool present) {
    waiter.present = present;
    EXPECT_EQ(queue().add(waiter, 0), waiter.place);
  }
  /// Returns whether a new request gets the lock. If the request gets it, releases the lock immediately.
  bool newcomer_gets_it(bool fair = false) {
    Request request{};
    request.fair = fair;
    const Contender newcomer{world.token(), request, nullptr};
    Chosen chosen;
    if (!may_take(*lock, world, newcomer, {}, chosen)) return false;
    take(*lock, world, newcomer);
    lock->free();
    return true;
  }
  /// Returns the number of the waiter for which the lock is reserved, or 0 if there is none.
  std::uint32_t reserved_for() const { return !lock->is_free() ? lock->fields.reserved.load(kRelaxed) : 0; }

  World& world = dict.dictionary().world();
  Arena arena{shard()};
  std::optional<LockEntry> lock;
  const std::uint64_t start = platform::monotonic_ns();
};

TEST_F(HandoffTest, a_free_lock_is_kept_for_a_prompt_waiter_that_is_overdue) {
  add(1, 0);
  EXPECT_EQ(offer(*lock, world).first.number, 1U);
  EXPECT_EQ(reserved_for(), 1U);
}

TEST_F(HandoffTest, a_free_lock_is_not_kept_for_an_absent_slow_waiter) {
  add(1, kSlow);
  const Chosen chosen = offer(*lock, world);
  EXPECT_EQ(chosen.first.number, 0U);
  EXPECT_EQ(chosen.aside.number, 1U) << "the slow waiter was not woken";
  EXPECT_EQ(reserved_for(), 0U);
  EXPECT_EQ(offer(*lock, world).aside.number, 0U) << "once";
  for (std::uint32_t i = 0; i < 2 * kOvertakesMax; ++i) ASSERT_TRUE(newcomer_gets_it()) << i;
}

TEST_F(HandoffTest, a_waiter_that_was_found_dead_gets_no_turn) {
  add(1, 0);
  TokenSet dead;
  dead.add(world.token());
  Chosen chosen;
  EXPECT_TRUE(may_take(*lock, world, {world.token(), Request{}, nullptr}, dead, chosen));
  EXPECT_EQ(reserved_for(), 0U);
  EXPECT_FALSE(lock->has_waiters());
}

TEST_F(HandoffTest, a_waiter_of_a_replaced_process_gets_no_turn) {
  const Token self = world.token();
  Waiter gone{.owner = make_token(slot_of(self), generation_of(self) - 1), .number = 1, .arrival = start - 10 * kMs};
  ASSERT_NE(queue().add(gone, 0), 0U);
  EXPECT_EQ(offer(*lock, world).first.number, 0U);
  EXPECT_EQ(reserved_for(), 0U);
  EXPECT_FALSE(lock->has_waiters());
}

TEST_F(HandoffTest, many_waiters_that_stand_aside_do_not_hide_a_prompt_waiter) {
  constexpr std::uint32_t kMany = 40;
  for (std::uint32_t number = 1; number <= kMany; ++number) add(number, kSlow);
  add(kMany + 1, 0);
  EXPECT_EQ(offer(*lock, world).first.number, kMany + 1);
}

TEST_F(HandoffTest, a_free_lock_is_kept_for_a_present_slow_waiter) {
  Waiter slow = add(1, kSlow);
  be_present(slow, true);
  EXPECT_FALSE(newcomer_gets_it());
  EXPECT_EQ(reserved_for(), 1U);
  lock->free();
  be_present(slow, false);
  EXPECT_TRUE(newcomer_gets_it()) << "a slow waiter that is no longer present must be overtaken";
}

TEST_F(HandoffTest, a_present_waiter_precedes_waiters_that_stand_aside) {
  add(1, kSlow, 30 * kMs);
  Waiter second = add(2, kSlow, 20 * kMs);
  be_present(second, true);
  const Chosen chosen = offer(*lock, world);
  EXPECT_EQ(chosen.first.number, 2U);
  EXPECT_EQ(chosen.aside.number, 1U);
  EXPECT_EQ(reserved_for(), 2U);
}

TEST_F(HandoffTest, a_prompt_waiter_is_not_delayed_by_slow_waiters_before_it) {
  add(1, kSlow, 30 * kMs);
  add(2, kSlow, 20 * kMs);
  add(3, 0);
  const Chosen chosen = offer(*lock, world);
  EXPECT_EQ(chosen.first.number, 3U);
  EXPECT_EQ(chosen.aside.number, 1U);
  // From now on, this waiter is the first, so the rules for the first waiter in a queue apply to it.
  std::uint32_t overtakes = 0;
  while (newcomer_gets_it()) ++overtakes;
  EXPECT_LE(overtakes, kOvertakesMax);
  EXPECT_EQ(reserved_for(), 3U);
}

TEST_F(HandoffTest, a_slow_waiter_that_responds_takes_the_free_lock_before_all_later_ones) {
  Waiter slow = add(1, kSlow, 30 * kMs);
  add(2, 0);
  offer(*lock, world);
  ASSERT_EQ(reserved_for(), 0U);
  Chosen chosen;
  EXPECT_TRUE(may_take(*lock, world, {world.token(), Request{}, &slow}, {}, chosen));
}

TEST_F(HandoffTest, a_free_lock_is_kept_for_a_slow_waiter_after_a_multiple_of_its_delay) {
  constexpr std::uint64_t kDelay = 2 * kMs;
  add(1, kDelay, kShare * kDelay + kMs);
  EXPECT_EQ(offer(*lock, world).first.number, 1U);
  EXPECT_EQ(reserved_for(), 1U);
}

TEST_F(HandoffTest, a_free_lock_is_kept_for_longer_if_needed) {
  constexpr std::uint64_t kDelay = 100 * kMs;
  add(1, kDelay, kShare * kDelay + kMs);
  offer(*lock, world);
  const std::uint64_t now_ms = platform::monotonic_ns() / kMs;
  EXPECT_EQ(reserved_for(), 1U);
  EXPECT_GT(expiry_ms(lock->entry.expiry.load(kRelaxed)), now_ms + kClaimNs / kMs);
}

TEST_F(HandoffTest, a_free_lock_is_kept_for_one_slow_waiter_at_a_time) {
  Waiter first = add(1, kSlow, 2 * kShare * kSlow);
  add(2, kSlow, 2 * kShare * kSlow - 1);
  offer(*lock, world);
  ASSERT_EQ(reserved_for(), 1U);
  claim_reserved(*lock, world, {world.token(), Request{}, &first});
  lock->free();
  EXPECT_EQ(offer(*lock, world).first.number, 0U) << "the second waiter has only just become the first";
}

TEST_F(HandoffTest, a_fair_waiter_stands_aside_for_nobody_and_overtakes_nobody) {
  add(1, kSlow);
  EXPECT_FALSE(newcomer_gets_it(true));
  EXPECT_EQ(reserved_for(), 1U);
  lock->free();
  add(2, 0, 9 * kMs, true);
  EXPECT_EQ(offer(*lock, world).first.number, 0U);
  EXPECT_EQ(reserved_for(), 0U);
}

TEST_F(HandoffTest, a_fair_waiter_is_never_overtaken_however_slow_it_is) {
  add(1, kSlow, 10 * kMs, true);
  EXPECT_EQ(offer(*lock, world).first.number, 1U);
  lock->free();
  EXPECT_FALSE(newcomer_gets_it());
}

TEST_F(HandoffTest, a_waiters_delay_is_known_when_it_responds) {
  const Waiter waiter = add(1, kSlow);
  EXPECT_EQ(queue().delay_of(waiter), 0U) << "the delay of a waiter that was never woken is not known";
  offer(*lock, world);
  sleep_ms(2);
  EXPECT_GE(queue().delay_of(waiter), 2 * kMs - 2048);
}

TEST_F(HandoffTest, a_waiter_that_has_lost_its_position_responded_too_late) {
  const Waiter waiter = add(1, 0);
  ASSERT_TRUE(queue().remove(waiter));
  EXPECT_EQ(queue().delay_of(waiter), kMissed);
}

// Fails if the lock is reserved for a waiter of unknown delay for as long as for a prompt waiter.
TEST_F(HandoffTest, a_free_lock_is_kept_briefly_for_a_waiter_of_unknown_delay) {
  const auto kept_ms = [this](std::uint64_t delay_ns, bool fair) {
    const Waiter waiter = add(1, delay_ns, kMs, fair);
    offer(*lock, world);
    EXPECT_EQ(reserved_for(), 1U);
    const std::uint64_t end_ms = expiry_ms(lock->entry.expiry.load(kRelaxed));
    lock->free();
    queue().remove(waiter);
    return end_ms - platform::monotonic_ns() / kMs;
  };
  EXPECT_LE(kept_ms(0, false), kFirstClaimNs / kMs + 1);
  EXPECT_GT(kept_ms(kDelayMinNs, false), kFirstClaimNs / kMs + 1);
  EXPECT_GT(kept_ms(0, true), kFirstClaimNs / kMs + 1) << "the lock must be reserved for longer if the waiter is fair";
}

constexpr std::uint64_t kNow = 1'000'000 * kMs;

TEST(promptness, a_woken_thread_that_waits_for_a_processor_does_not_count_as_slow) {
  Promptness promptness;
  promptness.note_awake(kNow);
  for (int i = 0; i < 30; ++i) promptness.note_delay(kSlow, kNow + 50'000);
  EXPECT_LE(promptness.delay_ns(), kPromptNs);
  for (int i = 0; i < 30; ++i) promptness.note_delay(kSlow, kNow + kSlow);
  EXPECT_GT(promptness.delay_ns(), kPromptNs) << "a thread that does other work must count as slow";
}

TEST(promptness, one_delay_does_not_make_a_loop_slow_and_many_are_forgotten_slowly) {
  Promptness promptness;
  promptness.note_delay(kPromptNs * 2, kNow);
  EXPECT_LE(promptness.delay_ns(), kPromptNs);
  for (int i = 0; i < 30; ++i) promptness.note_delay(kSlow, kNow);
  EXPECT_GT(promptness.delay_ns(), kSlow / 10 * 9);
  // A loop that polls is sometimes woken just before it polls.
  for (int i = 0; i < 16; ++i) promptness.note_delay(50'000, kNow);
  EXPECT_GT(promptness.delay_ns(), kPromptNs * 10);
  for (int i = 0; i < 150; ++i) promptness.note_delay(50'000, kNow);
  EXPECT_LE(promptness.delay_ns(), kPromptNs);
  promptness.note_delay(~std::uint64_t{0}, kNow);
  EXPECT_LE(promptness.delay_ns(), kDelayMaxNs);
}

TEST(promptness, measuring_takes_a_small_part_of_the_time) {
  Promptness promptness;
  ASSERT_TRUE(promptness.may_look(kMs));
  promptness.note_look(kMs, 100'000);
  EXPECT_FALSE(promptness.may_look(2 * kMs));
  EXPECT_TRUE(promptness.may_look(3 * kMs));
}

TEST(promptness, a_prompt_loop_has_a_known_delay) {
  Promptness promptness;
  promptness.note_delay(1, kNow);
  EXPECT_GE(promptness.delay_ns(), kDelayMinNs);
  EXPECT_LE(promptness.delay_ns(), kPromptNs);
}

// Fails if the delay after a missed claim is assumed to be the length of the claim.
TEST(promptness, a_waiter_that_responded_too_late_may_have_been_woken_after_its_last_step) {
  Promptness promptness;
  promptness.note_step(kNow);
  promptness.note_missed(kFirstClaimNs, kNow + 3 * kSlow);
  EXPECT_EQ(promptness.delay_ns(), 3 * kSlow) << "the delay must be known after one missed claim";
  promptness.note_missed(kClaimNs, kNow + 3 * kSlow);
  EXPECT_EQ(promptness.delay_ns(), 3 * kSlow);
}

// --- how often a busy wait polls ---

constexpr int kPolls = 20;  // more polls than learning takes

/// Returns the interval after many polls. `sections(pauses)` is the number of critical sections that begin during a
/// poll with this many pauses.
template <class Sections>
int learned(SpinInterval& interval, Sections&& sections) {
  for (int look = 0; look < kPolls; ++look) interval.note(sections(interval.pauses()), interval.pauses());
  return interval.pauses();
}

TEST(look_interval, is_long_if_sections_end_immediately) {
  SpinInterval interval;
  EXPECT_EQ(interval.pauses(), SpinInterval::kLeast);
  EXPECT_EQ(learned(interval, [](int pauses) { return static_cast<std::uint32_t>(pauses) / 2; }), SpinInterval::kMost);
}

TEST(look_interval, is_short_if_a_section_lasts) {
  SpinInterval interval;
  learned(interval, [](int pauses) { return static_cast<std::uint32_t>(pauses); });
  EXPECT_EQ(learned(interval, [](int) { return 0U; }), SpinInterval::kLeast);
}

// With critical sections of a microsecond, a poll that misses the end of a section costs a whole section. The interval
// must not become so long that each poll misses many sections.
TEST(look_interval, stays_short_if_sections_last_longer_than_a_poll) {
  SpinInterval interval;
  constexpr int kSection = SpinInterval::kLeast + 4;
  int passed = 0;
  const auto sections = [&](int pauses) {
    const int before = passed / kSection;
    passed += pauses;
    return static_cast<std::uint32_t>(passed / kSection - before);
  };
  for (int look = 0; look < 1000; ++look) {
    interval.note(sections(interval.pauses()), interval.pauses());
    ASSERT_LT(interval.pauses(), kSection) << "look " << look;
  }
}

// The memory of the polled word may have been reused for a different lock, so any count is possible.
TEST(look_interval, stays_within_its_bounds_for_any_input) {
  SpinInterval interval;
  for (const std::uint32_t sections : {0U, 1U, 0x1FFFFFFFU, 0x20000000U, 0xFFFFFFFFU}) {
    learned(interval, [&](int) { return sections; });
    EXPECT_GE(interval.pauses(), SpinInterval::kLeast);
    EXPECT_LE(interval.pauses(), SpinInterval::kMost);
  }
}

}  // namespace
}  // namespace holdfast::test
