// What a waiter waits for, as it is seen without any lock.
//
// What is seen is a hint: the words may belong to another entry by now. They stay mapped for the process's life, and
// whoever looks trusts none of them.
#pragma once

#include <array>
#include <cstdint>

#include "base/token.h"
#include "dict/layout.h"
#include "wait/wait_table.h"
#include "world/liveness.h"

namespace holdfast {

class Segment;
class Shard;
class World;

/// Whether processes live, as far as it is asked during one look: the kernel is asked once for each, mostly.
class LivenessCache {
 public:
  LivenessCache(World& world, Token self) noexcept : world_(world), self_(self) {}
  Liveness judge(Token token) noexcept;
  /// Not known to be dead: what it holds is held.
  bool operator()(Token token) noexcept { return judge(token) != Liveness::dead; }

 private:
  struct Answer {
    Token token = kNobody;
    Liveness liveness = Liveness::dead;
  };
  static constexpr std::uint32_t kAnswers = 64;

  World& world_;
  const Token self_;
  std::array<Answer, kAnswers> answers_;
};

/// held: no use in trying. open: whoever comes first may get it. granted: it is this waiter's, to be claimed.
enum class WatchState { held, open, granted };

struct Watch;

/// Which waiter of this process looks.
struct WaiterId {
  Token self;
  std::uint32_t number;
};

/// How to look at one kind of entry. One constant object for each.
struct WatchKind {
  WatchState (*look)(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept;
  /// Who has to release before the waiter can go on, if it is one; not known() if it is nobody, or there are several.
  Blocker (*blocker)(const Watch& watch) noexcept;
};

struct Watch {
  const WatchKind* kind = nullptr;  // null: there is nothing to look at
  const Entry* entry = nullptr;     // waiters with the same entry wait for the same
  const void* fields = nullptr;     // the entry's value
  const Segment* segment = nullptr;
  const Shard* shard = nullptr;
  const QueueFields* queue = nullptr;  // where the waiter stands
  std::uint32_t hash = 0;              // the entry's when the watch was made
  std::uint32_t shape = 0;             // also
  std::uint32_t want = 1;              // how many permits the waiter wants
  std::uint64_t grant = 0;             // of a watcher: fencing number of the grant whose end it waits for
  std::uint32_t block = 0;             // also: where it stands in the queue

  /// False when the words belong to something else by now. Where it matters, look at a fencing number before and after.
  bool is_same_entry() const noexcept {
    return entry->hash.load(kAcquire) == hash && entry->shape.load(kAcquire) == shape;
  }
};

/// A waiter's watch on a LockEntry or PermitsEntry. REQUIRES: the shard's mutex.
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
          0};
}

}  // namespace holdfast
