// Which threads of this process sleep for waiters, and which one of them listens for all.
//
// A ring of the process's bell (sync/mailbox.h) would wake every thread that sleeps on it, though its mail is for one.
// So only one parker, the listener, sleeps on the bell, hands out the mail and looks at what the others wait for; each
// of the others sleeps on a word of its own and is woken when something is there for it. A listener that gets up
// appoints another. One that does not come, say because a signal handler holds it up, is made good by the others'
// bounded sleeps: each of them takes the mail when it wakes, and listens if nobody does.
//
// Thread safety: REQUIRES the lot's mutex (wait/parking_lot.h), for every call.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// A parker's part in it.
struct Berth {
  Word32 word{0};  // changes when the thread is to get up: what it sleeps on where it does not listen
  Berth* before = nullptr;
  Berth* after = nullptr;
  bool asleep = false;  // in the list
};

class Sleepers {
 public:
  /// The thread is about to sleep. Whether it is the one that listens; with `relieves`, it is in any case.
  bool lie_down(Berth& berth, bool relieves) noexcept;
  /// The thread is awake, for whatever reason, or the parker ends.
  void get_up(Berth& berth) noexcept;
  /// Wakes it if it sleeps on its word.
  void call(Berth& berth) noexcept;
  /// Sees to it that somebody listens, if anybody sleeps.
  void appoint() noexcept;

  /// Whether nobody sleeps but the listener.
  bool alone() const noexcept { return first_ == nullptr; }
  bool is_listener(const Berth& berth) const noexcept { return listener_ == &berth; }
  /// In a forked child: nobody sleeps. REQUIRES: no berth that was in the list has been freed since.
  void forget() noexcept;

 private:
  void unlink(Berth& berth) noexcept;

  Berth* listener_ = nullptr;
  Berth* first_ = nullptr;
};

}  // namespace holdfast
