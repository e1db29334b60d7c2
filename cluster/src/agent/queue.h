// The holder's knowledge about the machines that wait for its lock.
//
// Nobody watches the queue, so its list is complete only up to a known revision. Waiters join at the end, in the order
// of their revisions. So the first listed waiter up to that revision is really first, and may get the lock. Before a
// later waiter there may be unknown waiters. A listed waiter may have left; the transaction that would give it the lock
// finds out.
#pragma once

#include <optional>
#include <vector>

#include "agent/store.h"

namespace holdfast::agent {

struct Waiter {
  Revision since = 0;  // when its queue key was created
  LeaseId lease = 0;

  bool operator==(const Waiter&) const = default;
};

class Queue {
 public:
  /// Creates the queue of a lock that this machine got at revision `gained`. Nothing is known about the queue yet.
  explicit Queue(Revision gained = 0) : gained_(gained) {}

  /// Replaces the known waiters: `waiters` are all waiters up to the revision `complete`. Ignores a look that a note or
  /// a newer look has overtaken.
  void learn(std::vector<Waiter> waiters, Revision complete);
  /// Records a note. `first` is the first in the queue, or was when the note came. If it should be listed and is not,
  /// the queue becomes unknown().
  void note(Waiter first);
  /// Removes a waiter that is dead. Its queue entry may or may not be gone, so the queue becomes unknown().
  void forget(Waiter waiter);

  /// Returns whether the queue must be read before the next step, because waiters ahead of the first one, or all
  /// waiters, may be missing.
  bool unknown() const;
  bool empty() const { return waiters_.empty(); }
  /// Returns the first waiter. REQUIRES: not unknown(), not empty().
  Waiter first() const { return waiters_.front(); }
  const std::vector<Waiter>& waiters() const { return waiters_; }
  Revision complete() const { return complete_; }

 private:
  Revision gained_;
  Revision complete_ = 0;
  std::vector<Waiter> waiters_;  // sorted by `since`
};

}  // namespace holdfast::agent
