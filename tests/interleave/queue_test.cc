// Tests the waiters for a lock while a process is held or killed between two steps of a handoff.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "interleave/failpoint.h"
#include "support/clock.h"
#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 30;

class InterleaveQueue : public testing::Test {
 protected:
  /// Takes the lock, reports the result, and obeys the orders "unlock" and "end". Is held at the failpoint while it
  /// releases the lock.
  static int hold(Channel& parent, const char* failpoint) {
    Dict dict("locks");
    holdfast_lease lease{};
    if (dict.try_lock("key", 0, &lease) != HOLDFAST_OK) return 1;
    pause_at(failpoint, parent);
    parent.say("held");
    while (parent.hear() == "unlock") parent.say(dict.unlock("key", &lease) == HOLDFAST_OK ? "unlocked" : "not");
    return 0;
  }
  /// Queues and reports this. When it gets the next line, waits for the lock.
  static int wait_for(Channel& parent) {
    Dict dict("locks");
    Waiting waiting;
    holdfast_lease lease{};
    if (waiting.once(dict, "key", &lease) != HOLDFAST_LOCKED) return 1;
    parent.say("queued");
    parent.hear();
    parent.say(waiting.lock(dict, "key", kLong, &lease) == HOLDFAST_OK ? "has it" : holdfast_error());
    parent.hear();
    return 0;
  }
  /// Queues as a watcher and reports this. When it gets the next line, waits for the end of the grant.
  static int watch(Channel& parent) {
    Dict dict("locks");
    const std::unique_ptr<holdfast_parker, CloseParker> parker(holdfast_parker_new());
    holdfast_wait wait{};
    wait.parker = parker.get();
    wait.waiter = holdfast_waiter_open(parker.get());
    std::uint64_t grant = 0;
    if (holdfast_lock_watch(dict.handle, "key", 3, &wait, &grant) != HOLDFAST_LOCKED) return 1;
    parent.say("queued");
    parent.hear();
    const double end = now() + kLong;
    int code = HOLDFAST_LOCKED;
    std::uint32_t woken = 0;
    while (code == HOLDFAST_LOCKED && now() < end) {
      holdfast_parker_sleep(parker.get(), wait.sleep, &woken, 1);
      code = holdfast_lock_watch(dict.handle, "key", 3, &wait, &grant);
    }
    parent.say(code == HOLDFAST_OK ? "went on" : holdfast_code_text(code));
    parent.hear();
    return 0;
  }
  /// Kills the holder at `failpoint` while it releases the lock, and expects this report from the queued process.
  static void expect_survives_death_at(const char* failpoint, int (*queue)(Channel&), const std::string& result) {
    Started holder("held", [failpoint](Channel& parent) { return hold(parent, failpoint); });
    Started queued("queued", queue);
    ASSERT_EQ(holder.ask("unlock"), std::string("at ") + failpoint);
    holder.kill_and_wait();
    EXPECT_EQ(queued.ask("wait"), result);
  }

  const ScratchDirectory directory_;
};

TEST_F(InterleaveQueue, a_death_between_release_and_wake_up_loses_no_waiter) {
  expect_survives_death_at("wake.post", wait_for, "has it");
}

TEST_F(InterleaveQueue, a_death_between_release_and_the_wake_up_of_watchers_loses_no_watcher) {
  expect_survives_death_at("watchers.post", watch, "went on");
}

// A waiter loses its position while it is idle, and its block merges with the free block before it. Then only the owner
// in the block's words shows the loss. Fails if a waiter that is removed from the queue remains recorded as the owner
// of its block.
TEST_F(InterleaveQueue, a_waiter_dropped_from_the_queue_queues_again) {
  Child child([](Channel& parent) {
    Dict dict("locks");
    holdfast_lease lease{};
    if (dict.try_lock("key", 0, &lease) != HOLDFAST_OK) return 1;
    Waiting neighbour;  // its block comes before the waiter's
    holdfast_lease none{};
    if (neighbour.once(dict, "key", &none) != HOLDFAST_LOCKED) return 2;
    holdfast_parker* const parker = holdfast_parker_new();
    holdfast_wait wait{};
    wait.parker = parker;
    wait.waiter = holdfast_waiter_open(parker);
    wait.timeout = 0.001;
    const auto step = [&] { return holdfast_lock_wait(dict.handle, "key", 3, 0, &wait, &none); };
    const auto waiters = [&] {
      holdfast_holder holder{};
      return dict.holder("key", &holder) == HOLDFAST_OK ? static_cast<int>(holder.waiters) : -1;
    };
    if (step() != HOLDFAST_LOCKED || waiters() != 2) return 3;
    if (neighbour.leave(dict, "key") != HOLDFAST_OK || waiters() != 1) return 4;
    // After this time, the next release removes the waiter from the queue.
    sleep_ms(50);
    if (dict.unlock("key", &lease) != HOLDFAST_OK || dict.try_lock("key", 0, &lease) != HOLDFAST_OK) return 5;
    if (waiters() != 0) return 6;
    wait.timeout = 0;
    if (step() != HOLDFAST_LOCKED) return 7;
    parent.say(waiters() == 1 ? "queued again" : "did not notice");
    if (dict.stats().repairs != 0) return 8;
    if (dict.unlock("key", &lease) != HOLDFAST_OK) return 9;
    std::uint32_t woken = 0;
    if (holdfast_parker_sleep(parker, kLong, &woken, 1) != 1 || woken != wait.waiter) return 10;
    return step() == HOLDFAST_OK ? 0 : 11;
  });
  EXPECT_EQ(child.hear(), "queued again");
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace holdfast::test
