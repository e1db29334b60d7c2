// Handoff: which waiter a lock or permits go to, and how. With the shard's mutex held; the chosen are woken after it.
//
// Waiters stay in the queue, by their arrival, until they take what they wait for or leave. A release wakes the first
// of them, once, and leaves the thing to the fastest, as a wake-up takes longer than many a critical section: without
// that, each section would cost one. But later requests overtake the first of the queue at most kOvertakesMax times,
// and not at all once it has been the first for kOvertakeNs: then the thing is granted to it, to be claimed within
// claim_ns(). So a waiter that finds k others waiting gets its turn after these k and at most kOvertakesMax * (k + 1)
// others; where the thing is held for longer than kOvertakeNs, after these k and one other. A fair request overtakes
// nobody, and nobody overtakes a fair waiter once it is the first: where all are fair, the order is strict.
//
// What is granted to a waiter that is not there lies idle until it comes. So all that is for prompt waiters. A waiter
// of a loop that is known to take longer than kPromptNs to come (wait/promptness.h) stands aside meanwhile: it is woken
// and keeps its place, but others overtake it, and it is the turn of the first behind it that does not stand aside. Its
// own turn is
// - when it comes: it looks for a moment for the next release, which is granted to it (it is present);
// - before it comes, once it has been the first for kShare times as long as it still needs: at most one part of so many
//   of the time is lost in that way.
// A fair request stands aside for nobody, and a fair waiter does not stand aside: strict order has its price.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/token.h"
#include "base/token_set.h"
#include "dict/wait_queue.h"
#include "lock/lock_entry.h"

namespace holdfast {

class World;

// --- order: locks and permits ---

// Few, but enough that with sections of a microsecond the wake-ups do not cost more than the sections.
inline constexpr std::uint32_t kOvertakesMax = 64;
// The time for some sections of ten microseconds: a few wake-ups.
inline constexpr std::uint64_t kOvertakeNs = 500'000;
// More than a thread takes to wake up, less than a loop takes that has other work to do.
inline constexpr std::uint64_t kPromptNs = 1'000'000;
inline constexpr std::uint64_t kShare = 32;
// A release looks at so many waiters that stand aside; behind more of them, waiters find a free lock by themselves.
inline constexpr int kAsideMax = 128;

inline bool is_prompt(const Waiter& waiter) noexcept { return waiter.fair || waiter.delay_ns <= kPromptNs; }

/// How long it still takes to come, by what is known of it; never less than half of what it takes at all, as it may be
/// late.
inline std::uint64_t expected_ns(const Head& head) noexcept {
  const std::uint64_t delay = head.waiter.delay_ns;
  return std::max(delay > head.woken_ns ? delay - head.woken_ns : 0, delay / 2);
}

/// Whether it is not the turn of this waiter now, though it has come before others.
inline bool stands_aside(const Head& head) noexcept {
  return !is_prompt(head.waiter) && !head.waiter.present && head.first_ns <= kShare * expected_ns(head);
}

/// Whether a later waiter may have what is free before `first`. `overtakes`: how often the first of this queue was
/// overtaken as yet; the entry counts it.
inline bool may_overtake(const Head& first, std::uint32_t overtakes, bool fair) noexcept {
  if (fair || first.waiter.fair) return false;
  if (!is_prompt(first.waiter)) return stands_aside(first);
  return overtakes - first.overtakes < kOvertakesMax && first.first_ns <= kOvertakeNs;
}

/// The waiters that a release or a refused attempt has chosen: to be woken after the mutex.
struct Chosen {
  Callee first;
  Callee aside;
  bool watchers = false;  // there are some to be called (lock/watchers.h)
};

/// The next waiters.
struct Turn {
  std::uint64_t now_ns = 0;
  Head first;  // its turn
  Head aside;  // the first of those that stand aside for it
};

/// The turn as of now. `may_stand_aside(const Waiter&) -> bool`: whether others may overtake this waiter at all.
template <class May>
Turn turn_of(WaitQueue queue, World& world, std::uint64_t now_ns, std::uint32_t overtakes,
             May&& may_stand_aside) noexcept {
  Turn turn{now_ns, queue.first(world, now_ns, overtakes), {}};
  for (int steps = 0; turn.first.block != 0 && may_stand_aside(turn.first.waiter); ++steps) {
    // Only for the first of them is time lost: those behind it wait for their turn to be waited for.
    const bool counts = turn.aside.block == 0;
    if (counts ? !stands_aside(turn.first) : is_prompt(turn.first.waiter) || turn.first.waiter.present) break;
    if (counts) turn.aside = turn.first;
    turn.first = steps < kAsideMax ? queue.after(turn.first, world, now_ns) : Head{};
  }
  if (turn.aside.block == 0 || turn.first.block == 0) return turn;
  // A fair waiter overtakes nobody.
  if (turn.first.waiter.fair)
    turn.first = {};
  else
    queue.make_first(turn.first, now_ns, overtakes);
  return turn;
}

// --- locks ---

/// A request for a lock.
struct Contender {
  Token self;
  Claim claim;
  const Waiter* waiter;  // null: it does not wait
};

/// The turn as of now. `fair`: for a request that overtakes nobody, so that nobody stands aside.
Turn turn_of(const LockEntry& lock, World& world, bool fair) noexcept;

// REQUIRES, for these: nobody holds the lock.

/// Wakes the first waiter, and grants the lock to it if nobody may overtake it any more; also wakes the first that
/// stands aside. Gives the waiters to wake, and whether there are watchers.
Chosen offer(const LockEntry& lock, World& world) noexcept;
/// Whether the contender may have it now. If not, it has been granted to the first waiter, and `chosen` is to be woken.
bool take_turn(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
               Chosen& chosen) noexcept;
/// Records one overtake of the first waiter, if there is one; false, with nothing done, if it is not allowed.
bool overtake_first(const LockEntry& lock, const Head& first, bool fair) noexcept;
/// Ends a grant: of a holder, or to a waiter that did not come for it.
void end_grant(const LockEntry& lock) noexcept;
Lease take(const LockEntry& lock, World& world, const Contender& contender) noexcept;

/// Whether a release granted the lock to this waiter, which has not claimed it yet.
bool is_reserved_for(const LockEntry& lock, const Waiter* waiter) noexcept;
/// REQUIRES: it is reserved for the contender's waiter.
Lease claim_reserved(const LockEntry& lock, World& world, const Contender& contender) noexcept;

}  // namespace holdfast
