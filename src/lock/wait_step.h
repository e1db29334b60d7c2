// What the waits for all primitives have in common: attempts that get past dead owners, and one step of a wait.
//
// An attempt runs with a shard's mutex held, where nobody may ask the kernel whether a process lives. So it names the
// owners that stand in its way; those who are dead are given to a second attempt, which treats exactly them as gone. A
// token is never given out again: who was found dead stays dead. Where it cannot be told whether a holder lives,
// nothing is taken from it: an attempt ends with `system`, and a wait goes on, as there may be a release, and ends with
// that.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/token.h"
#include "base/token_set.h"
#include "dict/expiry.h"
#include "dict/wait_queue.h"
#include "lock/handoff.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "wait/watch.h"
#include "world/world.h"

namespace holdfast {

/// Callers have their own timeouts: retry soon rather than block on a mutex whose owner is stopped.
inline constexpr std::uint64_t kAttemptPatienceNs = 50'000'000;

/// Why an attempt was refused.
struct BlockedBy {
  TokenSet holders;                     // in whose way it stands; none: an ordinary value
  std::uint64_t end_ms = kExpiryNever;  // when there may be a change without anybody's doing
  std::uint64_t place = 0;              // the waiter's, in the queue
  Watch watch;
  std::uint64_t delay_ns = 0;  // how long the waiter took to come when it was woken; 0: it was not
  bool unjudged = false;       // it cannot be told whether one of the holders lives
};

/// Adds to `dead` those of the holders that are. Whether there were any that were not known. Asks the kernel.
bool find_dead(World& world, Token self, BlockedBy& blocked_by, TokenSet& dead) noexcept;

/// Runs `attempt(const TokenSet& dead) -> Code`, which fills `blocked_by`, again while that gets past dead owners.
template <class Attempt>
Code try_past_the_dead(World& world, Token self, BlockedBy& blocked_by, Attempt&& attempt) noexcept {
  constexpr int kAttempts = 3;  // a third owner lives, or did so just now
  TokenSet dead;
  for (int i = 1;; ++i) {
    blocked_by.holders.clear();
    const Code code = attempt(static_cast<const TokenSet&>(dead));
    if (code != Code::locked || i == kAttempts || !find_dead(world, self, blocked_by, dead)) return code;
  }
}

/// What an attempt that does not wait tells: nobody is said to hold what may be a dead process's.
inline Code told(Code code, const BlockedBy& blocked_by) noexcept {
  return code == Code::locked && blocked_by.unjudged ? Code::system : code;
}

/// What became of a step of a wait: ends the wait, or tells the parker what to watch and `sleep` (s) how long.
Code settle_wait(Parker& parker, const Waiter& waiter, Code code, const BlockedBy& blocked_by, double& sleep) noexcept;

/// Whether a waiter that comes too late for its turn, again and again, looks for it for a moment (lock/handoff.h).
bool may_be_present(const Parker& parker, const Waiter& waiter) noexcept;
/// Does so, until it would get what it waits for or the moment is over.
void look_for_turn(World& world, Parker& parker, const Waiter& waiter, const BlockedBy& blocked_by) noexcept;

/// One step of a wait by waiter `number`, who wants `want` permits and maybe strict order. Runs
/// `attempt(const Waiter&, const TokenSet& dead, BlockedBy&) -> Code`, which queues the waiter where it says `locked`.
/// invalid: there is no such waiter.
template <class Attempt>
Code wait_once(World& world, Parker& parker, std::uint32_t number, std::uint32_t want, const Claim& claim,
               double& sleep, Attempt&& attempt) noexcept {
  const Token self = world.token();
  if (self == kNobody) return Code::system;
  Waiter waiter = parker.begin(number, self);
  if (waiter.arrival == 0) return Code::invalid;
  waiter.want = want;
  waiter.fair = claim.fair;
  waiter.deadline_ms = claim.timeout > 0 ? end_of_lease(claim.timeout) : 0;
  waiter.present = may_be_present(parker, waiter);
  BlockedBy blocked_by;
  const auto step = [&](const TokenSet& dead) noexcept {
    const Code result = attempt(static_cast<const Waiter&>(waiter), dead, blocked_by);
    if (blocked_by.place != 0) waiter.place = blocked_by.place;  // where the next attempt takes it out
    return result;
  };
  Code code = try_past_the_dead(world, self, blocked_by, step);
  if (blocked_by.delay_ns != 0) parker.promptness().note_delay(blocked_by.delay_ns, platform::monotonic_ns());
  if (waiter.present && code == Code::locked) {
    look_for_turn(world, parker, waiter, blocked_by);
    waiter.present = false;
    code = try_past_the_dead(world, self, blocked_by, step);
  }
  return settle_wait(parker, waiter, code, blocked_by, sleep);
}

/// After each step of a wait: `deadlock` if it would never end.
Code search_deadlock(Parker& parker, std::uint32_t number, const Claim& claim, std::string_view key,
                     Code code) noexcept;

/// Tells the waiters that a release chose. After the shard's mutex was given back.
void wake_chosen(World& world, const Chosen& chosen) noexcept;
inline void wake(World& world, const Chosen& chosen) noexcept {
  if ((chosen.first.number | chosen.aside.number) != 0) wake_chosen(world, chosen);
}

double seconds_until(std::uint64_t ms) noexcept;

}  // namespace holdfast
