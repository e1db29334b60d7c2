// Whose turn it is: fairness of what has a queue.
//
// Waiters stay in the queue, by their arrival, until they take what they wait for or leave. A release wakes the first
// of them, once, and leaves the thing to whoever is faster, as a wake-up takes longer than many a critical section:
// without that, each section would cost one. But the first of the queue is passed by at most kPassesMax who came later,
// and by nobody any more once it has been the first for kPassNs: then the thing is granted to it, to be claimed within
// claim_ns(). So whoever finds k others waiting gets his turn after these k and at most kPassesMax * (k + 1) others;
// where the thing is held for longer than kPassNs, after these k and one other. A fair requester passes nobody, and a
// fair waiter is passed by nobody once it is the first: where all are fair, the order is strict.
//
// What is granted to a waiter that is not there lies idle until it comes. So all that is for prompt waiters. One whose
// loop is known to take longer than kPromptNs to come (lock/promptness.h) stands aside meanwhile: it is woken and keeps
// its place, but others pass it, and it is the turn of the first behind it that does not stand aside. Its own turn is
// - when it comes: it looks for a moment for the next release, which is granted to it (it is present);
// - before it comes, once it has been the first for kShare times as long as it still needs: at most one part of so many
//   of the time is lost in that way.
// A fair request stands aside for nobody, and a fair waiter does not stand aside: strict order has its price.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dict/wait_queue.h"

namespace holdfast {

class World;

// Few, but enough that with sections of a microsecond the wake-ups do not cost more than the sections.
inline constexpr std::uint32_t kPassesMax = 64;
// The time for some sections of ten microseconds: a few wake-ups.
inline constexpr std::uint64_t kPassNs = 500'000;
// More than a thread takes to wake up, less than a loop takes that has other work to do.
inline constexpr std::uint64_t kPromptNs = 1'000'000;
inline constexpr std::uint64_t kShare = 32;
// A release looks at so many of those who stand aside; behind more of them, waiters find a free lock by themselves.
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

/// Whether one who came later than `first` may have what is free. `passes`: how often the first of this queue was
/// passed as yet; the entry counts it.
inline bool may_pass(const Head& first, std::uint32_t passes, bool fair) noexcept {
  if (fair || first.waiter.fair) return false;
  if (!is_prompt(first.waiter)) return stands_aside(first);
  return passes - first.passes < kPassesMax && first.first_ns <= kPassNs;
}

/// Whom a release or a refusal has chosen: to be woken after the mutex.
struct Chosen {
  Callee first;
  Callee aside;
  bool watchers = false;  // there are some to be called (lock/watchers.h)
};

/// Who is to come now.
struct Turn {
  std::uint64_t now_ns = 0;
  Head first;  // the one that it is the turn of
  Head aside;  // the first of those who stand aside for it
};

/// `may_stand_aside(const Waiter&) -> bool`: whether others may have the thing before this waiter at all.
template <class May>
Turn turn_of(WaitQueue queue, World& world, std::uint64_t now_ns, std::uint32_t passes,
             May&& may_stand_aside) noexcept {
  Turn turn{now_ns, queue.first(world, now_ns, passes), {}};
  for (int steps = 0; turn.first.block != 0 && may_stand_aside(turn.first.waiter); ++steps) {
    // Only for the first of them is time lost: those behind it wait for their turn to be waited for.
    const bool counts = turn.aside.block == 0;
    if (counts ? !stands_aside(turn.first) : is_prompt(turn.first.waiter) || turn.first.waiter.present) break;
    if (counts) turn.aside = turn.first;
    turn.first = steps < kAsideMax ? queue.after(turn.first, world, now_ns) : Head{};
  }
  if (turn.aside.block == 0 || turn.first.block == 0) return turn;
  // A fair waiter passes nobody.
  if (turn.first.waiter.fair)
    turn.first = {};
  else
    queue.make_first(turn.first, now_ns, passes);
  return turn;
}

}  // namespace holdfast
