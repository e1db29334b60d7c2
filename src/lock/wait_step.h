// One step of a wait for a lock or for permits: makes attempts that get past dead owners, and tells the parker (the
// object on which an event loop sleeps) what to do afterwards.
//
// An attempt holds a shard's mutex, so in the meantime it must not ask the kernel whether a process is alive. Instead,
// it names the owners that block it. The caller asks the kernel about them, and passes the dead owners to a second
// attempt, which treats exactly these owners as gone. A token is never reused, so an owner that was found dead stays
// dead.
//
// If it is unknown whether a holder is alive, nothing is taken from this holder. In this case, an attempt that does not
// wait ends with `system`. A wait continues, because the holder may still release; it ends with `system` only if the
// holder does not release in time.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/token.h"
#include "base/token_set.h"
#include "dict/expiry.h"
#include "dict/segment.h"
#include "dict/wait_queue.h"
#include "lock/handoff.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "wait/watch.h"
#include "world/world.h"

namespace holdfast {

/// Says why an attempt was refused.
struct BlockedBy {
  TokenSet holders;                     // the blocking owners; empty: an ordinary value blocks
  std::uint64_t end_ms = kExpiryNever;  // when the next lease, or the value, expires
  std::uint64_t place = 0;              // the waiter's position in the queue
  Watch watch;
  std::uint64_t delay_ns = 0;  // the result of WaitQueue::delay_of()
  bool unjudged = false;       // it is unknown whether one of the holders is alive
  Parker* parker = nullptr;    // the waiter's parker, which keeps the watched segment; null: nobody waits
  const Segment* kept = nullptr;
};

/// Keeps the memory that the waiter's watch uses. The parker keeps the reference, not this stack, because a child that
/// another thread forks would keep a reference on this stack forever. REQUIRES: the caller still has the EpochGuard in
/// which the watch was made.
inline void keep_watched(const Waiter& waiter, BlockedBy& blocked_by) noexcept {
  const Segment* const segment = blocked_by.watch.segment;
  if (segment == nullptr || blocked_by.kept == segment) return;
  blocked_by.parker->keep(waiter.number, blocked_by.watch, blocked_by.place);
  blocked_by.kept = segment;
}

/// Asks the kernel about the holders, and adds dead holders to `dead`. Returns whether it added any.
bool find_dead(World& world, Token self, BlockedBy& blocked_by, TokenSet& dead) noexcept;

/// Runs `attempt(const TokenSet& dead) -> Code`, which fills `blocked_by`. Repeats the attempt as long as it gets past
/// dead owners.
template <class Attempt>
Code try_past_the_dead(World& world, Token self, BlockedBy& blocked_by, Attempt&& attempt) noexcept {
  constexpr int kAttempts = 3;  // the third owner is alive, or was a moment ago
  TokenSet dead;
  for (int i = 1;; ++i) {
    blocked_by.holders.clear();
    const Code code = attempt(static_cast<const TokenSet&>(dead));
    if (code != Code::locked || i == kAttempts || !find_dead(world, self, blocked_by, dead)) return code;
  }
}

/// Returns the result of an attempt that does not wait. The result is never `locked` if the holder may be dead.
inline Code result_of_try(Code code, const BlockedBy& blocked_by) noexcept {
  return code == Code::locked && blocked_by.unjudged ? Code::system : code;
}

/// Concludes a step of a wait: ends the wait, or gives the parker its watch. Sets `sleep` to the seconds until the next
/// step.
Code conclude_wait(const WaitStep& step, const Waiter& waiter, Code code, const BlockedBy& blocked_by) noexcept;

/// Records how long the waiter took to respond, as reported by WaitQueue::delay_of(). Returns true, and records this in
/// `waiter`, if this is the first known delay of the waiter's loop and shows that the loop is slow.
bool learns_to_be_slow(Parker& parker, Waiter& waiter, std::uint64_t delay_ns) noexcept;

/// Returns whether the waiter of a slow loop may poll briefly until it is next, which makes it present
/// (lock/handoff.h).
bool may_be_present(const Parker& parker, const Waiter& waiter) noexcept;
/// Polls until an attempt may succeed, or until a short time is over.
void poll_for_turn(World& world, Parker& parker, const Waiter& waiter, const BlockedBy& blocked_by) noexcept;

/// Takes one step of the wait of `step`'s waiter. Runs `attempt(Waiter&, const TokenSet& dead, BlockedBy&) -> Code`.
/// Returns invalid if there is no such waiter. REQUIRES: an attempt that returns `locked` has queued the waiter, if
/// possible.
template <class Attempt>
Code wait_once(World& world, const WaitStep& step, const Request& request, Attempt&& attempt) noexcept {
  const Token self = world.token();
  if (self == kNobody) return Code::system;
  Parker& parker = step.parker;
  Waiter waiter = parker.begin(step.waiter, self);
  if (waiter.arrival == 0) return Code::invalid;
  waiter.kind = request.kind;
  waiter.want = request.want;
  waiter.fair = request.fair;
  waiter.tries = request.tries;
  waiter.deadline_ms = request.timeout > 0 ? end_of_lease(request.timeout) : 0;
  waiter.present = may_be_present(parker, waiter);
  BlockedBy blocked_by;
  blocked_by.parker = &parker;
  const auto try_once = [&](const TokenSet& dead) noexcept { return attempt(waiter, dead, blocked_by); };
  Code code = try_past_the_dead(world, self, blocked_by, try_once);
  // The waiter was queued when the delay of its loop was unknown. Try again now that the delay is known.
  if (blocked_by.delay_ns != 0 && learns_to_be_slow(parker, waiter, blocked_by.delay_ns) && code == Code::locked)
    code = try_past_the_dead(world, self, blocked_by, try_once);
  if (waiter.present && code == Code::locked) {
    poll_for_turn(world, parker, waiter, blocked_by);
    waiter.present = false;
    code = try_past_the_dead(world, self, blocked_by, try_once);
  }
  return conclude_wait(step, waiter, code, blocked_by);
}

/// Searches for a deadlock. Call this after each step of a wait. Returns `code`, or `deadlock` if the wait would never
/// end.
Code search_deadlock(const WaitStep& step, const Request& request, std::string_view key, Code code) noexcept;

double seconds_until(std::uint64_t ms) noexcept;

}  // namespace holdfast
