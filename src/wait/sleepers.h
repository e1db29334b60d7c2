// Manages the sleeping threads of this process, one of which listens for all of them.
//
// A post to the process's mailbox (sync/mailbox.h) would wake every thread that sleeps on the mailbox, although the
// mail is for one thread. So only one parker (the object on which an event loop sleeps), the listener, sleeps on the
// mailbox. It distributes the mail, and checks for all parkers what their waiters wait for. Every other parker sleeps
// on its own word, and is woken when there is mail for it. A listener that leaves elects another listener.
//
// A listener may be late, for example because a signal handler holds it up. The bounded sleeps of the other parkers
// cover this case: a parker that wakes reads the mail, and listens if no other parker does.
//
// Thread safety: every call REQUIRES that the mutex of the parking lot is held (wait/parking_lot.h).
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// A parker's entry among the sleepers.
struct SleepSlot {
  Word32 word{0};  // a thread that does not listen sleeps on this word; a change wakes it
  SleepSlot* before = nullptr;
  SleepSlot* after = nullptr;
  bool asleep = false;  // whether the parker is in the list
};

class Sleepers {
 public:
  /// Enters a thread that is about to sleep, and returns whether the thread listens. It listens if no other thread
  /// does, or if it is to take over from the listener (`relieves`).
  bool enter(SleepSlot& slot, bool relieves) noexcept;
  /// Removes a thread that is awake, for whatever reason, or a parker that is destroyed.
  void leave(SleepSlot& slot) noexcept;
  /// Wakes the thread if it sleeps on its own word.
  void wake(SleepSlot& slot) noexcept;
  /// If threads sleep but none listens, wakes one to become the listener.
  void elect_listener() noexcept;

  /// Returns whether no thread sleeps except the listener, if there is one.
  bool alone() const noexcept { return first_ == nullptr; }
  bool is_listener(const SleepSlot& slot) const noexcept { return listener_ == &slot; }
  /// Empties the list in a forked child, where no thread sleeps. REQUIRES: no slot that was in the list has been freed.
  void forget() noexcept;

 private:
  void unlink(SleepSlot& slot) noexcept;

  SleepSlot* listener_ = nullptr;
  SleepSlot* first_ = nullptr;
};

}  // namespace holdfast
