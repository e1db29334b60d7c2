// Knows which machines wait for a lock that this machine has.
//
// No machine watches the queue, so the list of waiters is complete only up to a certain revision. Waiters join the
// queue at the end, in the order of their revisions. So if the first listed waiter joined at or before that revision,
// it is really first, and may get the lock. If it joined later, there may be unknown waiters ahead of it. If a listed
// waiter has left the queue, the transaction that would give it the lock fails.
#pragma once

#include <optional>
#include <vector>

#include "agent/store.h"

namespace holdfast::agent {

struct Waiter {
  Revision since = 0;  // the revision at which its queue key was created
  LeaseId lease = 0;

  bool operator==(const Waiter&) const = default;
};

class Queue {
 public:
  /// Creates the queue of a lock that this machine got at revision `gained`. Nothing is known about the queue yet.
  explicit Queue(Revision gained = 0) : gained_(gained) {}

  /// Replaces the known waiters by the result of a look. `waiters` are all waiters up to the revision `complete`.
  /// Ignores the result if a Note or a newer look has arrived first.
  void learn(std::vector<Waiter> waiters, Revision complete);
  /// Records a Note. `first` was first in the queue when the Note was written, and may still be first. If this waiter
  /// should be in the list but is not, the queue becomes unknown().
  void note(Waiter first);
  /// Removes a dead waiter. Its queue key may still exist, so the queue becomes unknown().
  void forget(Waiter waiter);

  /// Returns whether the queue must be read before the next step, because waiters ahead of the first listed waiter, or
  /// all waiters, may be missing from the list.
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
