// Decides which waiter gets a released lock, or released permits. Every call here REQUIRES that the shard's mutex is
// held. Wake the chosen waiters after releasing the mutex.
//
// Waiters stay in the queue, in order of arrival, until they take what they wait for or leave. A release wakes the
// first waiter once, and the fastest request gets the lock. If each release passed the lock to a waiter instead, each
// critical section would cost a wake-up, which takes longer than many sections.
//
// Until the woken waiter responds, a lock has its fast path, so a critical section costs no more than without waiters
// (let_pass() in dict/lock_word.h). The waiter's next attempt takes the fast path away, and a release without the mutex
// checks that the waiter may still be overtaken (lock/fast_path.cc).
//
// Later requests can overtake the first waiter until it has been first for kOvertakeNs. The next release grants the
// lock to this waiter, which must claim the lock within claim_ns(). If the lock is free at that time, one more request
// can take it before. So a waiter that finds k others waiting gets the lock after these k, as many other requests as
// (k + 1) * kOvertakeNs has room for, and another k + 1. If the lock is held for longer than kOvertakeNs, the waiter
// gets it after these k requests and one other request.
//
// Requests that use the mutex, such as all requests for permits, can overtake the first waiter only kOvertakesMax
// times, because they delay it.
//
// A fair request overtakes no waiter, and no request overtakes a fair waiter once it is first. If all waiters are fair,
// the order is strict.
//
// A lock that is granted to an absent waiter is idle until the waiter responds. So the rules above apply only to
// waiters that respond promptly. A waiter *stands aside* if its event loop is known to take longer than kPromptNs to
// respond (wait/promptness.h). Such a waiter is woken and keeps its position, but others may overtake it, and the lock
// goes to the first waiter behind it that does not stand aside. A waiter that stands aside gets the lock in one of two
// ways:
// - After it has responded, it is *present*: it polls briefly for the next release, which grants the lock to it.
// - Even before it responds, it gets the lock once it has been first for kShare times as long as its response will
//   still take. So the lock is idle for at most 1 / kShare of the time.
//
// No waiter stands aside for a fair request, and a fair waiter does not stand aside: the idle time is the price of
// strict order. A waiter counts as prompt while the delay of its loop is unknown, but has only kFirstClaimNs to
// respond.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/token.h"
#include "base/token_set.h"
#include "dict/dictionary.h"
#include "dict/wait_queue.h"
#include "lock/lock_entry.h"

namespace holdfast {

// --- order: locks and permits ---

// The limit is small. But with sections of a microsecond, it is large enough for the wake-ups to take no more time than
// the sections. Benchmarks of this constant and the next: "contended_lock", "Short critical sections", "Fairness among
// many contenders".
inline constexpr std::uint32_t kOvertakesMax = 64;
// This is enough time for several sections of ten microseconds, or for a few wake-ups.
inline constexpr std::uint64_t kOvertakeNs = 500'000;
// This is longer than a thread takes to wake up, and shorter than a loop with other work takes to respond. No benchmark
// covers this constant, kShare or kAsideMax, because none has a loop with other work, so no waiter stands aside.
// handoff_test.cc tests the limits of all three.
inline constexpr std::uint64_t kPromptNs = 1'000'000;
inline constexpr std::uint64_t kShare = 32;
// A release checks at most this many waiters that stand aside. Waiters behind them find a free lock by themselves.
inline constexpr int kAsideMax = 128;

inline bool is_prompt(const Waiter& waiter) noexcept { return waiter.fair || waiter.delay_ns <= kPromptNs; }

/// Returns the time that the waiter still needs to respond, according to the known delay of its loop. Returns at least
/// half of the whole delay, because the waiter may be late.
inline std::uint64_t expected_ns(const Head& head) noexcept {
  const std::uint64_t delay = head.waiter.delay_ns;
  return std::max(delay > head.woken_ns ? delay - head.woken_ns : 0, delay / 2);
}

/// Returns whether this waiter stands aside for later waiters at the moment.
inline bool stands_aside(const Head& head) noexcept {
  return !is_prompt(head.waiter) && !head.waiter.present && head.first_ns <= kShare * expected_ns(head);
}

/// Returns whether a later request may overtake `first`. `overtakes` is the entry's count of how often the first waiter
/// of this queue has been overtaken.
inline bool may_overtake(const Head& first, std::uint32_t overtakes, bool fair) noexcept {
  if (fair || first.waiter.fair) return false;
  if (!is_prompt(first.waiter)) return stands_aside(first);
  return overtakes - first.overtakes < kOvertakesMax && first.first_ns <= kOvertakeNs;
}

/// The waiters that a release or a refused attempt has chosen. Wake them after releasing the mutex.
struct Chosen {
  WakeTarget first;
  WakeTarget aside;
  bool watchers = false;  // also wake the watchers (lock/watchers.h)
};

// REQUIRES, for the calls that wake: the caller holds no shmtx, because these calls make system calls.

void wake_chosen(World& world, const Chosen& chosen) noexcept;
/// Wakes the chosen waiters.
inline void wake(World& world, const Chosen& chosen) noexcept {
  if ((chosen.first.number | chosen.aside.number) != 0) wake_chosen(world, chosen);
}

/// The maximum number of watchers that one call wakes. The benchmark is "100 waiters for one value".
inline constexpr std::size_t kWokenAtOnce = 64;
/// Wakes up to kWokenAtOnce watchers of a grant that has ended.
void wake_watchers(Dictionary& dictionary, std::string_view key) noexcept;

/// Wakes the chosen waiters, and the watchers if any have to be woken.
inline void wake(Dictionary& dictionary, std::string_view key, const Chosen& chosen) noexcept {
  wake(dictionary.world(), chosen);
  if (chosen.watchers) [[unlikely]]
    wake_watchers(dictionary, key);
}

/// The waiters that get the lock or permits next.
struct Turn {
  std::uint64_t now_ns = 0;
  Head first;  // the waiter that is next
  Head aside;  // the first of the waiters that stand aside for `first`
};

/// Finds the waiters that are next at this moment. `may_stand_aside(const Waiter&) -> bool` says whether later waiters
/// may overtake this waiter.
template <class May>
Turn turn_of(WaitQueue queue, World& world, std::uint64_t now_ns, std::uint32_t overtakes,
             May&& may_stand_aside) noexcept {
  Turn turn{now_ns, queue.first(world, now_ns, overtakes), {}};
  for (int steps = 0; turn.first.block != 0 && may_stand_aside(turn.first.waiter); ++steps) {
    // Compute the delay only for the first waiter that stands aside. An absent waiter behind it cannot become due.
    const bool counts = turn.aside.block == 0;
    if (counts ? !stands_aside(turn.first) : is_prompt(turn.first.waiter) || turn.first.waiter.present) break;
    if (counts) turn.aside = turn.first;
    turn.first = steps < kAsideMax ? queue.after(turn.first, world, now_ns) : Head{};
  }
  if (turn.aside.block == 0 || turn.first.block == 0) return turn;
  // A fair waiter does not overtake a waiter that stands aside.
  if (turn.first.waiter.fair)
    turn.first = {};
  else
    queue.make_first(turn.first, now_ns, overtakes);
  return turn;
}

// --- locks ---

/// Finds the waiters that are next at this moment. `fair` says that the request is fair, so no waiter stands aside for
/// it.
Turn turn_of(const LockEntry& lock, World& world, bool fair) noexcept;

// REQUIRES, for offer(), may_take(), overtake_first() and take(): the lock is free.

/// Chooses the first waiter, and grants the lock to it if it may no longer be overtaken. Also chooses the first waiter
/// that stands aside. Returns the waiters to wake, and whether there are watchers.
Chosen offer(const LockEntry& lock, World& world) noexcept;
/// Returns whether the contender may take the lock now. If not, grants the lock to the first waiter. Wake `chosen`
/// afterwards.
bool may_take(const LockEntry& lock, World& world, const Contender& contender, const TokenSet& dead,
              Chosen& chosen) noexcept;
/// Records that the first waiter, if there is one, is overtaken once. Returns false and records nothing if the waiter
/// may not be overtaken.
bool overtake_first(const LockEntry& lock, const Head& first, bool fair) noexcept;
/// Ends a grant, whether a holder has claimed it or it is reserved for a waiter that did not respond. REQUIRES: the
/// lock is granted.
void end_grant(const LockEntry& lock) noexcept;
/// Grants the lock to the contender, and removes its waiter from the queue.
Lease take(const LockEntry& lock, World& world, const Contender& contender) noexcept;

/// Returns whether there are watchers of a grant that has ended.
inline bool has_watchers_to_wake(const LockEntry& lock) noexcept {
  if (!lock.has_watchers()) [[likely]]
    return false;
  return lock.watchers().is_first_of_another(lock.is_free() ? 0 : lock.sequence());
}

/// Returns whether the lock is reserved for this waiter: a release has granted it, and the waiter has not claimed it
/// yet.
bool is_reserved_for(const LockEntry& lock, const Waiter* waiter) noexcept;
/// Makes the reserved grant the contender's lease. REQUIRES: the grant is reserved for the contender's waiter.
Lease claim_reserved(const LockEntry& lock, World& world, const Contender& contender) noexcept;

}  // namespace holdfast
