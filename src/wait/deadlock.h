// The search for deadlocks: tasks (wait/task_id.h) each of which waits for what the next one holds.
//
// Everybody's waits stand in a table that all processes share (wait/wait_table.h). A wait of a task that may hold
// something is recorded when a look of its parker finds it still going on; then, and whenever the table has changed
// since, its process looks at what it waits for and writes down who holds that now, and when it looked. From its own
// wait each search follows the holders; who is in a circle goes on looking. Each task waits for one thing, and a thing
// with several holders leads nowhere, so there is at most one way to go.
//
// Why a circle that is found was a deadlock. Let T be the time at which the last of its waits began. It counts only if
// each of its records was seen after T:
//   1. A task does nothing but wait from the beginning of its wait until its record is gone. All records of the
//      circle are there, of the same waits, when they are read a second time after all were read once. So from T until
//      between the two readings, no task of the circle did anything: none got a lock, and none released one.
//   2. At the time its record was seen, after T, what task i waits for was held by task i + 1, by a grant with a
//      number of its own. A task becomes the holder by what it does itself: it takes the thing, or adopts the grant.
//      That was not after T (1.), so it was before, and i + 1 held the thing at T.
//   3. So at T each task waited for what the next one held, and none could release anything.
// Without "seen after T" the fault is: i is seen waiting for i + 1, which then releases that, and only later begins to
// wait for something else, while i has not looked again.
// Clocks: CLOCK_MONOTONIC is one clock for all processors. The begin of a wait is read after a full fence, and the time
// of a look before one, so what a task did before it waited is seen by whoever looks at a later time.
//
// What may still end such a circle is somebody outside of it, or the clock: a timeout, the exptime of a lock, a death,
// a delete of the lock's key, another coroutine that adopts a grant. Who is dead, and grants that have expired, are
// found out before a circle counts.
//
// Not found: waits for what several hold; waits that are not for locks or rwlocks; a circle of more than kCycleMax
// waits; waits for which there was no free record; waits that poll; processes of other worlds; and a circle of one
// wait, which is a task that waits for itself. A process that is stopped, or busy, is found to wait only when it goes
// on. Nor is it known which task holds a grant where the process names none, because it is not certain which of its
// coroutines is to release it.
//
// Who is told: the last one to wait, as that closed the circle. If it does not come, because its coroutine is no longer
// resumed or its process is stopped, the one before it is told after kVictimPatienceNs, and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "wait/wait_table.h"

namespace holdfast {

inline constexpr std::size_t kCycleMax = 64;
inline constexpr std::uint64_t kVictimPatienceNs = 1'000'000'000;

enum class Cycle { none, there, deadlock };

/// Follows the holders from `own`, which is recorded. there: it is in a circle, but that is not proved, or another is
/// to be told. deadlock: it is to be told; `keys` are then what the waits of the circle are for, its own first.
Cycle find_cycle(const WaitTable& table, const Wait& own, std::uint64_t now_ns,
                 const std::function<Liveness(Token)>& judge, std::vector<std::string>& keys);

/// One wait of this process. REQUIRES for all calls: one thread at a time.
class TrackedWait {
 public:
  using Judge = std::function<Liveness(Token)>;
  using LookAtBlocker = std::function<Blocker()>;

  /// The wait begins, or goes on.
  void begin(Token self, std::uint32_t task, std::string_view key) noexcept;
  /// The wait is over. What was found stays to be asked for.
  void end() noexcept;
  bool going_on() const noexcept { return wait_.token != kNobody; }

  /// As long as the table's changes() are these, look() has nothing to tell; kNothing: it is to be called. What several
  /// hold may come to be held by one alone, and nothing in the table tells of it.
  std::uint64_t quiet_at() const noexcept {
    return is_written_ && !in_circle_ && wait_.blocker.known() ? changes_ : kNothing;
  }
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  /// To be called now and then. True when the waiter is to be told of a deadlock, which it then settles.
  bool look(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);
  /// Whether what the last look found is still so.
  bool settle(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);

  /// Of the last deadlock.
  const std::vector<std::string>& keys() const noexcept { return keys_; }

 private:
  bool has_record(WaitTable& table, const Judge& judge);
  Cycle search(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);

  Wait wait_;  // token: nobody if it does not go on
  WaitRecord* record_ = nullptr;
  bool is_written_ = false;     // the record
  std::uint64_t changes_ = 0;   // of the table, when it was last searched
  std::uint64_t retry_ns_ = 0;  // no record is asked for before
  bool in_circle_ = false;
  bool told_ = false;
  std::vector<std::string> keys_;
};

}  // namespace holdfast
