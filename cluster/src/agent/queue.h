// What the holder of a lock knows about the machines that wait for it.
//
// Nobody watches the queue, so knowledge belongs to a revision up to which no waiter is missing. Waiters come only at
// the end, in the order of their revisions. So a known first waiter within that bound is the first, and may get the
// lock; unknown waiters may precede one beyond it. A listed waiter may have left: the transaction that would give it
// the lock finds out.
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
  /// The queue of a lock that was gained at `gained`. Nothing is known about it.
  explicit Queue(Revision gained = 0) : gained_(gained) {}

  /// Replaces what is known: `waiters` are all waiters up to the revision `complete`. Ignores a look that a note or
  /// another look has overtaken.
  void learn(std::vector<Waiter> waiters, Revision complete);
  /// `first` is the first in the queue, or was when it came. If it should be listed and is not, the queue becomes
  /// unknown().
  void note(Waiter first);
  /// The waiter is dead, and its queue entry may or may not be gone. The queue becomes unknown().
  void forget(Waiter waiter);

  /// Returns whether the queue must be read before the next step, because waiters may be missing before the first, or
  /// all.
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
