// The helper thread of a process: it listens to the bell for event loops that sleep elsewhere, in poll or epoll.
//
// There is one at most, and only while somebody needs it and for kLingerNs after that, so that waits which follow each
// other share one. It has all signals blocked, runs nothing of the host's and is not in a forked child, which starts
// its own. Its code stays mapped when the host unloads the library (-z nodelete).
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
  static constexpr std::uint64_t kLingerNs = 800'000'000;

  /// What the thread does after each ring, and at the latest at the time that it gave before; 0: the thread ends.
  /// Called without the mutex.
  using Turn = std::uint64_t (*)() noexcept;

  /// Sees to it that the thread runs and takes a turn at that time (CLOCK_MONOTONIC, ns) at the latest. On failure
  /// there is no thread.
  Status be_up(World& world, Turn turn, std::uint64_t deadline_ns);

  /// When the next turn is due, for a turn to give: `due` if the thread is needed, else the end of its lingering, or 0
  /// when that has come.
  std::uint64_t plan(std::uint64_t now_ns, bool needed, std::uint64_t due_ns) noexcept;

  /// In a forked child, and at exit: there is no thread.
  void forget() noexcept { *this = WakeThread(); }

 private:
  Token owner_ = kNobody;         // the process that it runs in; nobody: there is none
  std::uint64_t until_ = 0;       // it takes its next turn then
  std::uint64_t idle_since_ = 0;  // 0: it is needed
};

}  // namespace holdfast
