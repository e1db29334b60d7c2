// The death watch of a process is a thread that the kernel notifies of deaths, so that waiters need not check whether
// holders are alive.
//
// Each process of a world (all processes of one runtime directory) keeps open file descriptions of the file `processes`
// until it dies (world/process_table.h). The death watch waits for a notice that a description was closed
// (platform/platform.h). Then it makes all parkers (the objects on which event loops sleep) check what their waiters
// wait for. A notice arrives before the kernel drops the record lock that shows that the process is alive, so a second
// check follows later.
//
// The thread waits 0.3 ms after a notice, and checks again 10 ms later. If processes start and exit all the time, there
// is one check every 10 ms, as often as without the thread. Changes other than deaths, such as a flush, a removal, or a
// lease that now ends earlier, are posted to all processes of the world. The thread has its own descriptor table
// (close_range), so a host that closes all descriptors does not close the thread's descriptors, and no child inherits
// them.
//
// A process has at most one death watch. The thread starts when a wait has lasted for kSettledNs, and ends after a time
// of kIdleNs in which no task waited. If the kernel refuses notices, there is no death watch, and parkers check at
// short intervals. For signals, forks and unloading, see the wake thread (wait/wake_thread.h).
//
// Thread safety: every call REQUIRES that the mutex of the parking lot is held (wait/parking_lot.h).
#pragma once

#include <cstdint>

#include "base/token.h"

namespace holdfast {

class World;

class DeathWatch {
 public:
  /// No thread is started for a shorter wait. The benchmark of both constants is "1,000 waiters while nothing happens",
  /// in which the thread runs.
  static constexpr std::uint64_t kSettledNs = 200'000'000;
  static constexpr std::uint64_t kIdleNs = 10'000'000'000;

  /// The events that the thread reports to its Round, without the mutex. `started` means that notices will arrive,
  /// `refused` that no notices will arrive and the thread ends, `look` that a process may have died, and `idle` that
  /// kIdleNs have passed. Round returns whether the thread continues.
  enum class Event { started, refused, look, idle };
  using Round = bool (*)(World& world, Event event) noexcept;

  /// Starts the thread, unless it already runs or was recently refused.
  void begin(World& world, Token self, Round round, std::uint64_t now_ns) noexcept;
  /// Returns whether this process receives notices.
  bool is_on() const noexcept { return on_; }
  void note_started() noexcept { on_ = true; }
  void note_refused(std::uint64_t now_ns) noexcept;
  /// Records that there is no thread: in a forked child, and when the thread ends.
  void forget() noexcept { *this = DeathWatch(); }

 private:
  Token owner_ = kNobody;  // the process in which the thread runs; kNobody: there is no thread
  bool on_ = false;
  std::uint64_t retry_ns_ = 0;  // after a refusal: start no thread before this time
};

}  // namespace holdfast
