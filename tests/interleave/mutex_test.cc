// Tests the mutex inside a segment, while a process is held between two steps of the protocol.
#include <gtest/gtest.h>

#include <string>

#include "crash/ledger.h"
#include "interleave/failpoint.h"
#include "platform/platform.h"
#include "support/dict.h"
#include "support/started.h"
#include "support/world.h"
#include "sync/shmtx.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

class Interleave : public testing::TestWithParam<MutexStrategy> {
 protected:
  Shmtx mutex() { return {state_, GetParam(), enter(), nullptr, 0}; }
  /// Locks the mutex and reports the result. Then obeys the orders "unlock" and "end".
  int contend(Channel& parent, std::uint64_t patience_ns) {
    Shmtx mine = mutex();
    parent.say(text_of(mine.lock_for(patience_ns)));
    while (parent.hear() == "unlock") {
      mine.unlock();
      parent.say("unlocked");
    }
    return 0;
  }
  /// Does the same as contend(), but is held at the failpoint while it locks the mutex.
  int contend_by(const std::string& failpoint, Channel& parent, std::uint64_t patience_ns) {
    pause_at(failpoint, parent);
    return contend(parent, patience_ns);
  }
  Started contender(const std::string& result) {
    return {result, [this](Channel& parent) { return contend(parent, kLongNs); }};
  }
  Started contender_at(const std::string& failpoint, std::uint64_t patience_ns = kLongNs) {
    return {"at " + failpoint,
            [this, failpoint, patience_ns](Channel& parent) { return contend_by(failpoint, parent, patience_ns); }};
  }
  std::uint32_t word() const { return state_.word.load(); }

  const ScratchDirectory directory_;
  ShmtxState& state_ = crash::make_shared_memory<ShmtxState>();
};

class InterleaveAsleep : public Interleave {};

INSTANTIATE_TEST_SUITE_P(strategies, Interleave, testing::Values(MutexStrategy::futex, MutexStrategy::spin),
                         [](const auto& strategy) {
                           return strategy.param == MutexStrategy::futex ? "futex" : "spin";
                         });
INSTANTIATE_TEST_SUITE_P(strategies, InterleaveAsleep, testing::Values(MutexStrategy::futex),
                         [](const auto&) { return "futex"; });

// Fails if the word of the dead process is replaced without a comparison.
TEST_P(Interleave, two_processes_that_detect_the_same_death_do_not_both_get_the_mutex) {
  Started owner = contender("acquired");
  owner.kill_and_wait();

  constexpr std::uint64_t kShortNs = 100 * kNsPerMs;
  Started slow = contender_at("shmtx.judged", kShortNs);
  Started quick = contender("owner died");
  slow.say("go on");
  EXPECT_EQ(slow.hear(), "timeout");
  EXPECT_EQ(quick.ask("unlock"), "unlocked");
  EXPECT_EQ(word(), 0U);
}

TEST_P(Interleave, a_death_between_detection_and_takeover_leaves_the_mutex_to_the_next) {
  Started owner = contender("acquired");
  owner.kill_and_wait();
  Started first = contender_at("shmtx.judged");
  first.kill_and_wait();
  Started second = contender("owner died");
}

// Fails if a waiter that times out does not leave the waiters bit set. It may have received a wake-up that another
// waiter needs.
TEST_P(InterleaveAsleep, a_waiter_that_gives_up_after_a_sleep_leaves_the_waiters_bit_for_others) {
  Started owner = contender("acquired");
  Started waiter("waits", [&](Channel& parent) {
    const std::uint64_t deadline = monotonic_ns() + 1000 * kNsPerMs;
    at_failpoint("shmtx.waiters_bit", [&, deadline] {
      parent.say("waits");
      parent.hear();
      while (monotonic_ns() < deadline) platform::sleep_until(deadline);
    });
    Shmtx mine = mutex();
    parent.say(text_of(mine.lock(deadline)));
    parent.hear();
    return 0;
  });
  ASSERT_EQ(owner.ask("unlock"), "unlocked");
  EXPECT_EQ(word(), 0U);
  Started next = contender("acquired");
  EXPECT_EQ(word() & kShmtxWaiters, 0U);
  EXPECT_EQ(waiter.ask("go on"), "timeout");
  EXPECT_EQ(word() & kShmtxWaiters, kShmtxWaiters);
}

TEST_P(InterleaveAsleep, a_release_between_waiters_bit_and_sleep_is_not_missed) {
  Started owner = contender("acquired");
  Started waiter = contender_at("shmtx.waiters_bit");
  ASSERT_EQ(owner.ask("unlock"), "unlocked");
  EXPECT_EQ(waiter.ask("go on"), "acquired");
}

// Fails if the waiter takes the mutex without setting the waiters bit, because another sleeper would then not be woken.
TEST_P(InterleaveAsleep, a_waiter_that_may_have_slept_keeps_the_waiters_bit_for_others) {
  Started owner = contender("acquired");
  Started waiter = contender_at("shmtx.waiters_bit");
  ASSERT_EQ(owner.ask("unlock"), "unlocked");
  EXPECT_EQ(word(), 0U);
  ASSERT_EQ(waiter.ask("go on"), "acquired");
  EXPECT_EQ(word() & kShmtxWaiters, kShmtxWaiters);
}

TEST_P(InterleaveAsleep, a_death_between_waiters_bit_and_sleep_harms_nobody) {
  Started owner = contender("acquired");
  Started waiter = contender_at("shmtx.waiters_bit");
  waiter.kill_and_wait();
  ASSERT_EQ(owner.ask("unlock"), "unlocked");
  EXPECT_EQ(word(), 0U);
  Started next = contender("acquired");
}

TEST_P(InterleaveAsleep, a_death_between_release_and_wake_up_delays_a_sleeper_by_at_most_one_interval) {
  Started owner("acquired", [&](Channel& parent) {
    pause_at("shmtx.released", parent);
    return contend(parent, kLongNs);
  });
  Started waiter = contender_at("shmtx.waiters_bit");
  // In the meantime, the waiter may have woken at the end of its sleep interval, and may have set the waiters bit
  // again.
  ASSERT_EQ(owner.ask("unlock"), "at shmtx.released");
  waiter.say("go on");
  owner.kill();
  EXPECT_EQ(waiter.hear(), "acquired");
}

// The word is released, and then overwritten with the token of the process that released it. Until this process has
// left the release, no other process may take over the mutex.
TEST_P(InterleaveAsleep, a_process_that_is_stopped_on_its_way_out_counts_as_inside) {
  Started owner("acquired", [&](Channel& parent) {
    pause_at("shmtx.released", parent);
    return contend(parent, kLongNs);
  });
  const std::uint64_t held = state_.word.load();
  state_.word.store(held | kShmtxWaiters);  // forces the slow path
  ASSERT_EQ(owner.ask("unlock"), "at shmtx.released");
  state_.word.store(held);
  Started impatient("timeout", [&](Channel& parent) { return contend(parent, 100 * kNsPerMs); });
  EXPECT_EQ(owner.ask("go on"), "unlocked");
  Started next = contender("owner died");
}

// For this kind of mutex, the record lock is the actual mutex. The word only shows the next owner whether the previous
// owner died while it held the mutex.
TEST(interleave_file, a_death_between_record_lock_and_word_leaves_the_mutex_free) {
  const ScratchDirectory directory;
  const auto store = [](Channel& parent, const char* failpoint) {
    Dict dict("file", {.size = 65536, .mutex = HOLDFAST_MUTEX_FILE});
    if (failpoint != nullptr) pause_at(failpoint, parent);
    parent.say(dict.set("key", "value") == HOLDFAST_OK && dict.stats().repairs == 0 ? "stored" : holdfast_error());
    parent.hear();
    return 0;
  };
  Started first("at shmtx.record_locked", [&](Channel& parent) { return store(parent, "shmtx.record_locked"); });
  first.kill_and_wait();
  Started second("stored", [&](Channel& parent) { return store(parent, nullptr); });
}

}  // namespace
}  // namespace holdfast::test
