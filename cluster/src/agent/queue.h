// The holder's knowledge about the machines that wait for its lock.
//
// Nobody watches the queue, so its list is complete only up to a known revision. Waiters join at the end, in the order
// of their revisions. So the first listed waiter up to that revision is the first one, and may get the lock; before a
// later one there may be unknown waiters. A listed waiter may have left: the transaction that would give it the lock
// finds out.
#pragma once

#include <optional>
#include <vector>

#include "agent/store.h"

namespace holdfast::agent {

struct Waiter {
  Revision since = 0;  // when its key was created
  LeaseId lease = 0;

  bool operator==(const Waiter&) const = default;
};

class Queue {
 public:
  /// The queue of a lock that this machine got at revision `gained`. Nothing is known about it yet.
  explicit Queue(Revision gained = 0) : gained_(gained) {}

  /// Replaces what is known: `waiters` are all waiters up to the revision `complete`. Ignores a look that a note or
  /// another look has overtaken.
  void learn(std::vector<Waiter> waiters, Revision complete);
  /// `first` is the first in the queue, or was when it came. If it should be listed and is not, the queue becomes
  /// unknown().
  void note(Waiter first);
  /// The waiter is dead, and its queue entry may or may not be gone. The queue becomes unknown().
  void forget(Waiter waiter);

  /// Returns whether the queue must be read before the next step, because waiters before the first, or all, may be
  /// missing.
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
