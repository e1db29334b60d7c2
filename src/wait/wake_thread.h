// The wake thread of a process sleeps on the mailbox (sync/mailbox.h) for foreign event loops, which sleep in poll or
// epoll.
//
// A process has at most one wake thread. The thread exists while a parker (the object on which an event loop sleeps)
// needs it, and for kLingerNs after that, so that successive waits share one thread. The thread blocks all signals, and
// does not run code of the host. A forked child does not inherit the thread, but starts its own. The thread's code
// stays mapped when the host unloads the library (-z nodelete).
//
// The descriptor of a parker is one of a pair of sockets, because each socket is a separate file, whereas all eventfds
// have the same inode. Device and inode are compared before each write, so a descriptor number that the host has closed
// and reused is not mistaken for the parker's descriptor. The message is an empty datagram, which adds no byte to a
// stream if the wrong descriptor gets it. The wake thread also serves a parker's timer, so a loop that waits for this
// one descriptor without a timeout is woken by mail and by the timer.
//
// Making a descriptor readable takes about twice as long as waking a parker that sleeps by itself, because the wake-up
// passes through a second thread.
//
// Thread safety: every call REQUIRES that the mutex of the parking lot is held (wait/parking_lot.h).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/token.h"

namespace holdfast {

class World;

class WakeThread {
 public:
  /// The time for which the thread stays when no parker needs it. The benchmark is "From release to resume", for hosts
  /// with a loop.
  static constexpr std::uint64_t kLingerNs = 800'000'000;

  /// Runs one round of the thread. The thread calls this without the mutex, after each post, and at the latest at the
  /// time that the last round returned. Returns when the next round is due (CLOCK_MONOTONIC, ns), or 0 if the thread
  /// must end.
  using Round = std::uint64_t (*)() noexcept;

  /// Makes sure that the thread runs, and that its next round is at the deadline (CLOCK_MONOTONIC, ns) at the latest.
  /// After a failure, there is no thread.
  Status be_up(World& world, Round round, std::uint64_t deadline_ns);

  /// Plans the next round. Returns what the round must return: `due_ns` if the thread is needed, otherwise the time
  /// until which it lingers, or 0 once that time has passed.
  std::uint64_t plan(std::uint64_t now_ns, bool needed, std::uint64_t due_ns) noexcept;

  /// Records that there is no thread: in a forked child, and when the thread ends.
  void forget() noexcept { *this = WakeThread(); }

 private:
  Token owner_ = kNobody;         // the process in which the thread runs; kNobody: there is no thread
  std::uint64_t until_ = 0;       // when the next round is due
  std::uint64_t idle_since_ = 0;  // 0: the thread is needed
};

}  // namespace holdfast
