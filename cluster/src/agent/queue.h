// What the holder of a lock knows about the machines that wait for it.
//
// The queue is watched by nobody, so knowledge is of a revision: up to it, no waiter is missing. Waiters come only at
// the end, in the order of their revisions, so a known first waiter within that bound is the first, and may get the
// lock; one beyond it may have unknown waiters before it. A waiter that is listed may have left: the transaction that
// would give it the lock finds out.
#pragma once

#include <optional>
#include <vector>

#include "agent/store.h"

namespace holdfast::agent {

struct Waiter {
  Revision since = 0;  // the creation of its key
  LeaseId lease = 0;

  bool operator==(const Waiter&) const = default;
};

class Queue {
 public:
  /// The queue of a lock that was gained at `gained`, of which nothing is known.
  explicit Queue(Revision gained = 0) : gained_(gained) {}

  /// Replaces what is known: `waiters` are all up to the revision `complete`. A look that was overtaken by a note, or
  /// by another look, tells nothing.
  void learn(std::vector<Waiter> waiters, Revision complete);
  /// `first` is the first in the queue, or was when it came. One that should be listed and is not: unknown().
  void note(Waiter first);
  /// The waiter is dead: its place may be gone, or not yet. Then unknown().
  void forget(Waiter waiter);

  /// Whether it must be read before the next step: it may hold waiters that are not listed before the first, or at all.
  bool unknown() const;
  bool empty() const { return waiters_.empty(); }
  /// The first. REQUIRES: not unknown(), not empty().
  Waiter first() const { return waiters_.front(); }
  const std::vector<Waiter>& waiters() const { return waiters_; }
  Revision complete() const { return complete_; }

 private:
  Revision gained_;
  Revision complete_ = 0;
  std::vector<Waiter> waiters_;  // by `since`
};

}  // namespace holdfast::agent
