// A watch describes what a waiter waits for, in a form that can be checked without any lock.
//
// The result of a check is only a hint: the words may now belong to another entry, so trust none of them. The words
// stay mapped while the waiter watches, because the waiter keeps the segment.
#pragma once

#include <array>
#include <cstdint>

#include "base/token.h"
#include "dict/layout.h"
#include "wait/wait_table.h"

namespace holdfast {

class Segment;
class Shard;
class World;

/// Remembers, for one check, which processes are alive, so that the check usually asks the kernel only once about each
/// process.
class LivenessCache {
 public:
  LivenessCache(World& world, Token self) noexcept : world_(world), self_(self) {}
  Liveness judge(Token token) noexcept;
  /// Returns whether the process counts as alive, so that everything that it holds counts as held. Every process that
  /// is not known to be dead counts as alive.
  bool operator()(Token token) noexcept { return judge(token) != Liveness::dead; }

 private:
  struct Answer {
    Token token = kNobody;
    Liveness liveness = Liveness::dead;
  };
  // No benchmark covers this constant, because none waits for the locks of so many processes.
  static constexpr std::uint32_t kAnswers = 64;

  World& world_;
  const Token self_;
  std::array<Answer, kAnswers> answers_;
};

/// The result of a check. `held` means that an attempt would be refused, `open` that the first attempt may get the
/// lock, and `granted` that the lock is reserved for this waiter, which must claim it.
enum class WatchState { held, open, granted };

struct Watch;

/// The waiter that makes the check, and its process.
struct WaiterId {
  Token self;
  std::uint32_t number;
};

/// Describes how to check one kind of entry. Each kind has one constant object, in the module that implements it.
struct WatchKind {
  WatchState (*look)(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept;
  /// Returns the only other holder, if the waiter can continue only after this holder has released. If there is no such
  /// holder, or if there are several, the result is not known().
  Blocker (*blocker)(const Watch& watch) noexcept;
  /// Returns the time at which the hold or value that is waited for may end by itself (CLOCK_MONOTONIC, ms). If it does
  /// not end by itself, returns a time that never comes, such as kExpiryNever.
  std::uint64_t (*end_ms)(const Watch& watch) noexcept;
  /// Says whether a check sees everything that an attempt would see, so that a waiter need not retry unless a check
  /// tells it to.
  bool sees_all;
  /// Says whether the waiters are in a queue. If not, the process that changes what they wait for wakes them in another
  /// way.
  bool has_queue;
};

struct Watch {
  const WatchKind* kind = nullptr;  // null: nothing to check
  const Entry* entry = nullptr;     // waiters with the same entry wait for the same thing
  const void* fields = nullptr;     // the entry's value; for a change: the stripe
  const Segment* segment = nullptr;
  const Shard* shard = nullptr;
  const QueueFields* queue = nullptr;  // the queue that the waiter is in
  std::uint32_t hash = 0;              // the entry's hash when the watch was made
  std::uint32_t shape = 0;             // the entry's shape at that time
  std::uint32_t want = 1;              // number of permits that the waiter wants
  std::uint64_t grant = 0;             // for a watcher: fencing token of the grant that must end; for a reader that
                                       // waits to become the writer: its own token; for a change: the known version
  std::uint32_t block = 0;             // for a watcher: its block in the queue
  bool deaths = false;                 // the wait also ends when a process has died

  /// Returns false if the words now belong to another entry. To be certain, read a fencing token before and after the
  /// fields.
  bool is_same_entry() const noexcept {
    return entry->hash.load(kAcquire) == hash && entry->shape.load(kAcquire) == shape;
  }
};

/// Returns whether nothing wakes the waiter, because it needs a position in a queue but has none.
inline bool must_poll(const Watch& watch, std::uint64_t place) noexcept {
  return place == 0 && (watch.kind == nullptr || watch.kind->has_queue);
}

/// Makes a watch on the entry `held`, which has the fields used here. REQUIRES: the shard's mutex is held.
template <class Held>
Watch watch_entry(const WatchKind& kind, const Held& held, std::uint32_t want) noexcept {
  return {&kind,
          &held.entry,
          &held.fields,
          &held.segment,
          &held.shard,
          &held.fields.queue,
          held.entry.hash.load(kRelaxed),
          held.entry.shape.load(kRelaxed),
          want,
          0,
          0,
          false};
}

}  // namespace holdfast
