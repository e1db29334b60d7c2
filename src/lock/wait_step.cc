#include "lock/wait_step.h"

#include <algorithm>

#include "base/failpoint.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

// A waiter that is not woken tries again after this time. (Its parker checks more often.) The benchmark is "100
// coroutines wait for one lock while nothing happens".
constexpr double kSleepMax = 1.0;
// The same time, for a waiter whose parker sees everything that an attempt would see. The benchmark is "1,000 waiters
// while nothing happens".
constexpr double kRest = 15.0;
static_assert(1e3 * kRest < kRestingPatienceMs);
// A waiter polls if it cannot queue, because there is no memory or the key has an ordinary value. It also polls if the
// wake thread that should listen for it could not be started. No benchmark covers these two constants, because none has
// such waiters.
constexpr double kSleepPolling = 0.01;
// The more pollers there are, the less often each of them tries. Together they find a free lock within about 0.2 ms.
constexpr std::size_t kPollersPerSleep = 64;
// The time for which a present waiter polls until it is next, and the interval between its polls. No benchmark covers
// these constants, because only a waiter of a slow loop polls.
constexpr std::uint64_t kPresentNs = 500'000;
constexpr std::uint64_t kPollNs = 20'000;

}  // namespace

bool find_dead(World& world, Token self, BlockedBy& blocked_by, TokenSet& dead) noexcept {
  bool found = false;
  blocked_by.unjudged = false;
  for (const Token holder : blocked_by.holders) {
    if (holder == self || dead.has(holder)) continue;
    const Liveness liveness = world.judge(holder);
    if (liveness == Liveness::unknown) blocked_by.unjudged = true;
    if (liveness != Liveness::dead) continue;
    dead.add(holder);
    found = true;
  }
  return found;
}

double seconds_until(std::uint64_t ms) noexcept {
  return std::max(static_cast<double>(ms) / 1e3 - static_cast<double>(platform::monotonic_ns()) / 1e9, 0.0);
}

bool may_be_present(const Parker& parker, const Waiter& waiter) noexcept {
  if (is_prompt(waiter)) return false;
  const std::uint64_t now_ns = platform::monotonic_ns();
  return now_ns - waiter.arrival > kOvertakeNs && parker.promptness().may_look(now_ns);
}

bool learns_to_be_slow(Parker& parker, Waiter& waiter, std::uint64_t delay_ns) noexcept {
  const std::uint64_t now_ns = platform::monotonic_ns();
  if (delay_ns == kMissed)
    parker.promptness().note_missed(claim_ns(waiter), now_ns);
  else
    parker.promptness().note_delay(delay_ns, now_ns);
  if (waiter.delay_ns != 0) return false;
  waiter.delay_ns = parker.promptness().delay_ns();
  waiter.present = may_be_present(parker, waiter);
  return !is_prompt(waiter);
}

// Does not poll for a release by this process, because the holder may be a task that waits for this thread.
void poll_for_turn(World& world, Parker& parker, const Waiter& waiter, const BlockedBy& blocked_by) noexcept {
  const Watch& watch = blocked_by.watch;
  if (watch.kind == nullptr || blocked_by.place == 0 || blocked_by.holders.has(waiter.owner)) return;
  const std::uint64_t start_ns = platform::monotonic_ns();
  std::uint64_t now_ns = start_ns;
  LivenessCache liveness(world, waiter.owner);
  do {
    platform::sleep_until(now_ns + kPollNs);
    now_ns = platform::monotonic_ns();
  } while (now_ns - start_ns < kPresentNs &&
           watch.kind->look(watch, liveness, {waiter.owner, waiter.number}) == WatchState::held);
  parker.promptness().note_look(now_ns, now_ns - start_ns);
}

Code conclude_wait(const WaitStep& step, const Waiter& waiter, Code code, const BlockedBy& blocked_by) noexcept {
  HOLDFAST_FAILPOINT("wait.settle");
  Parker& parker = step.parker;
  if (code != Code::locked && code != Code::timeout) {
    parker.end(waiter.number);
    return code;
  }
  if (code == Code::timeout && blocked_by.watch.kind == nullptr && waiter.place != 0) {
    step.sleep = kSleepMax;  // the waiter still has its position and its watch
    return code;
  }
  parker.promptness().note_step(platform::monotonic_ns());
  const std::size_t loops = 1 + parker.watch(waiter.number, blocked_by.watch, blocked_by.place) / kPollersPerSleep;
  const bool rests = waiter.rests && blocked_by.watch.kind != nullptr && blocked_by.watch.kind->sees_all;
  const bool polls = must_poll(blocked_by.watch, blocked_by.place) || !parker.attended() ||
                     (blocked_by.watch.deaths && !parker.hears_of_deaths());
  step.sleep = polls ? kSleepPolling * static_cast<double>(loops) : rests ? kRest : kSleepMax;
  if (blocked_by.end_ms != kExpiryNever) step.sleep = std::min(step.sleep, seconds_until(blocked_by.end_ms));
  return code;
}

Code search_deadlock(const WaitStep& step, const Request& request, std::string_view key, Code code) noexcept {
  if (code != Code::locked || request.holds == HoldsLocks::nothing || request.task == kNoTask) return code;
  const std::uint32_t task = request.holds == HoldsLocks::everything ? whole_state(request.task) : request.task;
  const Alone alone = request.may_hold_it ? Alone::counts : Alone::ignored;
  return step.parker.track(step.waiter, task, key, alone) ? Code::deadlock : code;
}

}  // namespace holdfast
