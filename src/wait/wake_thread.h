// The wake thread of a process: sleeps on the mailbox (sync/mailbox.h) for foreign event loops, which sleep in poll or
// epoll.
//
// A process has at most one, only while a parker needs it and for kLingerNs after that, so that successive waits share
// one. It blocks all signals and runs no code of the host. A forked child does not have it, and starts its own. Its
// code stays mapped when the host unloads the library (-z nodelete).
//
// The descriptor of a parker is one of a pair of sockets, because each socket is a separate file: device and inode are
// compared before each write, so a number that the host has closed and opened again is not taken for ours. All eventfds
// show the same inode. The message is an empty datagram, which puts no byte into a stream. This thread keeps the time
// of a parker's timer, so loops that wait for one descriptor without a timeout get both in one.
//
// A descriptor becomes readable about twice as long after a release as a parker that sleeps by itself returns, because
// of the second hop.
//
// Thread safety: REQUIRES the lot's mutex (wait/parking_lot.h), for every call.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/token.h"

namespace holdfast {

class World;

class WakeThread {
 public:
  /// Benchmarks: From release to resume, for hosts with a loop.
  static constexpr std::uint64_t kLingerNs = 800'000'000;

  /// One round of the thread: called after each post, and at the latest at the time that the last round returned.
  /// Returns when the next round is due (CLOCK_MONOTONIC, ns); 0: the thread ends. Called without the mutex.
  using Round = std::uint64_t (*)() noexcept;

  /// Makes sure that the thread runs, and runs a round at that time (CLOCK_MONOTONIC, ns) at the latest. After a
  /// failure there is no thread.
  Status be_up(World& world, Round round, std::uint64_t deadline_ns);

  /// Plans the next round. Returns what the round must return: `due_ns` if the thread is needed, else the end of its
  /// lingering, or 0 once that time has passed.
  std::uint64_t plan(std::uint64_t now_ns, bool needed, std::uint64_t due_ns) noexcept;

  /// Records that there is no thread: in a forked child, and when the thread ends.
  void forget() noexcept { *this = WakeThread(); }

 private:
  Token owner_ = kNobody;         // the process that the thread runs in; kNobody: there is no thread
  std::uint64_t until_ = 0;       // when the next round is due
  std::uint64_t idle_since_ = 0;  // 0: the thread is needed
};

}  // namespace holdfast
