// The wait queue of an entry contains its waiters in order of arrival, as blocks of the shard's arena that are attached
// to the entry. Waiters for a lock, for an rwlock and for a semaphore share the queue, because a key is only one of
// these at a time. When a key changes its kind, Transaction::put() moves the queue to the new entry. A reader that
// waits to become the writer is before all others, because no other waiter can get the write lock earlier.
//
// The queue is a hint. No chain reaches it, so repair frees its blocks. Each waiter notices this at a later check, and
// queues again. A waiter counts as gone when its process no longer has its slot, or has not checked for
// kWaiterPatienceMs. It also counts as gone when its deadline has passed, or when it has not tried for
// kWaiterPatienceMs (for kRestingPatienceMs if it rests).
//
// There are two kinds of queue: one for waiters, which want the lock or permits, and one for watchers, which wait for a
// grant to end (lock/watchers.h). Comments apply to both kinds unless they name only one of them.
//
// REQUIRES, for every call except glimpse_first(), is_first_coming() and is_queued(): the shard's mutex is held.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/arena.h"
#include "dict/shard.h"

namespace holdfast {

class DeadOwners;
class World;

inline constexpr std::uint64_t kWaiterPatienceMs = 1500;
/// The limit that replaces kWaiterPatienceMs for a waiter that rests, because its process checks on its behalf.
inline constexpr std::uint64_t kRestingPatienceMs = 20'000;
/// The time within which a woken waiter must respond, unless twice its known delay is longer. A waiter that does not
/// respond in time is removed from the queue, and must queue again. Benchmarks of this limit and the next: "2 x 50
/// coroutines", "Fairness among many contenders".
inline constexpr std::uint64_t kClaimNs = 50'000'000;
/// The same limit if the waiter's delay is unknown. A loop that has never been woken may be slow, and several slow
/// loops may arrive together.
inline constexpr std::uint64_t kFirstClaimNs = 5'000'000;
/// The maximum and the minimum of the delay that is recorded for a waiter. 0 means unknown.
inline constexpr std::uint64_t kDelayMaxNs = 1'000'000'000;
inline constexpr std::uint64_t kDelayMinNs = 4'096;
inline constexpr std::uint64_t kMissed = ~std::uint64_t{0};

struct Waiter {
  Token owner = kNobody;      // the waiting process
  std::uint32_t number = 0;   // the waiter's number within its process; 0: none
  std::uint64_t arrival = 0;  // when the wait began (CLOCK_MONOTONIC, ns)
  std::uint64_t place = 0;    // as returned by add(): the block, and above it the shard's number of repairs; 0: none
  HeldKind kind = HeldKind::lock;  // the kind of object that it wants
  std::uint32_t want = 1;          // number of permits; if the key has another kind, it wants all of them
  bool fair = false;
  bool rests = false;             // it rarely tries again, because its process checks on its behalf
  bool present = false;           // its thread spins for a moment, to see the next release
  bool is_new = false;            // its wait begins with this step
  bool upgrades = false;          // it is a reader that waits to become the writer, and is before all others
  bool tries = false;             // for a lock of a cluster: it waits only until it is known which machine has the lock
  std::uint64_t delay_ns = 0;     // how long its loop takes to react to a wake-up; 0: unknown
  std::uint64_t deadline_ms = 0;  // when its wait ends at the latest (CLOCK_MONOTONIC); 0: unknown
};

/// The waiter to wake. If the number is 0, there is none.
struct WakeTarget {
  Token owner = kNobody;
  std::uint32_t number = 0;
};
constexpr WakeTarget wake_target(const Waiter& waiter) noexcept { return {waiter.owner, waiter.number}; }

/// Returns how long a grant stays reserved for a waiter with this delay.
constexpr std::uint64_t claim_ns(std::uint64_t delay_ns, bool fair) noexcept {
  if (delay_ns < kDelayMinNs && !fair) return kFirstClaimNs;
  return 2 * delay_ns > kClaimNs ? 2 * delay_ns : kClaimNs;
}
inline std::uint64_t claim_ns(const Waiter& waiter) noexcept { return claim_ns(waiter.delay_ns, waiter.fair); }

/// The first waiter of a queue, as seen without the mutex.
struct Glimpse {
  Token owner = kNobody;  // kNobody: there is none
  std::uint32_t number = 0;
  std::uint32_t want = 0;
  bool late = false;  // it was woken, and did not respond in time
};
/// `held` is the kind of the queue's entry.
Glimpse glimpse_first(const Shard& shard, const QueueFields& ends, HeldKind held) noexcept;

/// Returns whether the first waiter was woken, has not responded yet, and has been the first for at most `first_ns`, as
/// seen without the mutex.
bool is_first_coming(const Shard& shard, const QueueFields& ends, std::uint64_t first_ns) noexcept;

/// Returns how many of an entry's permits this waiter wants. `held` is the kind of the entry.
std::uint32_t want_of(const EntryView& waiter, HeldKind held) noexcept;

/// Returns whether a waiter of this process still has its position (Waiter::place), as seen without the mutex.
bool is_queued(const Shard& shard, std::uint64_t place, Token self, std::uint32_t number) noexcept;

/// The first waiter of a queue, or the first waiter for which the earlier waiters stand aside.
struct Head {
  std::uint32_t block = 0;  // 0: there is none
  Waiter waiter;
  std::uint32_t overtakes = 0;  // the entry's `overtakes` when this waiter became the first
  std::uint64_t first_ns = 0;   // time since it became the first
  std::uint64_t woken_ns = 0;   // time since it was woken
  bool woken = false;           // it was woken, and has not responded yet
};

inline constexpr auto kGranulesPerWaiter = static_cast<std::uint32_t>(granules_for(0, sizeof(WaiterFields)));

class WaitQueue {
 public:
  /// Makes the view of a queue. `kind` is waiter or watcher, and `held` is the kind of the entry.
  WaitQueue(const Shard& shard, Arena& arena, QueueFields& ends, EntryType kind = EntryType::waiter,
            HeldKind held = HeldKind::lock) noexcept
      : shard_(shard), arena_(arena), ends_(ends), kind_(kind), held_(held) {}

  /// Returns how many waiters are in the queue, including waiters that are gone.
  std::uint32_t count() const noexcept;
  /// Adds the waiter at its position, or refreshes it if it is still in the queue. The waiter has responded, so it no
  /// longer counts as woken. Here and below, `overtakes` is the count in the entry. Returns the waiter's position, or 0
  /// if there is no memory.
  std::uint64_t add(const Waiter& waiter, std::uint32_t overtakes) noexcept;
  /// Adds a watcher at the end, or refreshes it. `grant` is the fencing token of the grant that it watches. Returns
  /// its position, as add() does.
  std::uint64_t append(const Waiter& watcher, std::uint64_t grant) noexcept;
  /// Returns whether the first watcher watches a grant other than `current`. A `current` of 0 means that there is no
  /// grant now.
  bool is_first_of_another(std::uint64_t current) const noexcept;
  /// Returns whether `see(const Waiter&) -> bool` is true for all waiters that arrived before `arrival`. Returns false
  /// if there are more than `max`.
  template <class See>
  bool every_before(std::uint64_t arrival, std::uint32_t max, See&& see) const noexcept;
  /// Removes the waiter. Returns false if it was not in the queue.
  bool remove(const Waiter& waiter) noexcept;
  /// Does the same. If the waiter was in the queue, sets `kind` to the kind that it wanted.
  bool remove(const Waiter& waiter, HeldKind& kind) noexcept;
  /// Returns the first waiter, which stays in the queue. Removes waiters before it that are gone, or that were woken
  /// and did not respond in time. The returned waiter counts as the first from now on.
  Head first(World& world, std::uint64_t now_ns, std::uint32_t overtakes) noexcept;
  // REQUIRES, for all calls with a `head`: first() or after() has just returned it, and it is not empty.
  /// Returns the next waiter of the queue, and removes waiters as first() does.
  Head after(const Head& head, World& world, std::uint64_t now_ns) noexcept {
    return at_or_after(shard_.entry(head.block).next.load(kRelaxed), world, now_ns);
  }
  /// Makes this waiter count as the first from now on, unless it already does. Call this for a waiter for which the
  /// earlier waiters stand aside.
  void make_first(Head& head, std::uint64_t now_ns, std::uint32_t overtakes) noexcept;
  /// Returns how long the waiter, which has responded, took after it was woken. Returns 0 if it was not woken, or
  /// kMissed if it was removed in the meantime, so that the time is unknown.
  std::uint64_t delay_of(const Waiter& waiter) const noexcept;
  void note_woken(const Head& head, std::uint64_t now_ns) noexcept;
  void drop(const Head& head) noexcept { unlink(head.block); }
  /// Removes the waiters of dead processes. Returns how many it removed.
  std::uint32_t drop_dead(const DeadOwners& dead) noexcept;
  /// Removes and returns the first waiter that is not gone; its number is 0 if there is none. Also removes gone waiters
  /// before it. A watcher of the grant `kept`, and all watchers after it, stay.
  Waiter pop(World& world, std::uint64_t kept = 0) noexcept;

 private:
  bool is_waiter(std::uint32_t block) const noexcept;
  WaiterFields& fields(std::uint32_t block) const noexcept;
  bool is_here(const Waiter& waiter) const noexcept;
  std::uint64_t place_of(std::uint32_t block) const noexcept {
    return shard_.header().repairs.load(kRelaxed) << 32 | block;
  }
  Word32& previous(std::uint32_t block) const noexcept { return shard_.entry(block).hash; }
  /// Returns the number by which the queue is sorted.
  std::uint64_t order_of(std::uint32_t block) const noexcept;
  Waiter waiter_of(std::uint32_t block) const noexcept;
  bool is_gone(std::uint32_t block, World& world) const noexcept;
  bool is_late(std::uint32_t block, std::uint32_t now) const noexcept;
  void become_first(std::uint32_t block, std::uint32_t now, std::uint32_t overtakes) noexcept;
  Head at_or_after(std::uint32_t block, World& world, std::uint64_t now_ns) noexcept;
  std::uint64_t refresh(const Waiter& waiter) noexcept;
  std::uint32_t create(const Waiter& waiter, std::uint32_t overtakes) noexcept;
  void link(std::uint32_t block, std::uint32_t before, std::uint32_t after) noexcept;
  std::uint64_t grant_of(std::uint32_t block) const noexcept;
  bool unlink(std::uint32_t block) noexcept;
  std::uint32_t give_up() noexcept;

  const Shard& shard_;
  Arena& arena_;
  QueueFields& ends_;
  const EntryType kind_;
  const HeldKind held_;
};

template <class See>
bool WaitQueue::every_before(std::uint64_t arrival, std::uint32_t max, See&& see) const noexcept {
  std::uint32_t block = ends_.head.load(kRelaxed);
  for (std::uint32_t steps = 0; steps < max; ++steps) {
    if (block == 0) return true;
    if (!is_waiter(block)) return false;
    const Waiter waiter = waiter_of(block);
    if (waiter.arrival >= arrival) return true;
    if (!see(waiter)) return false;
    block = shard_.entry(block).next.load(kRelaxed);
  }
  return block == 0;
}

}  // namespace holdfast
