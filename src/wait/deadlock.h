// Finds deadlocks: cycles of tasks (wait/task_id.h) in which each task waits for what the next task holds.
//
// All processes share a table of waits (wait/wait_table.h). A task that may hold something gets a record there if it is
// still waiting when its parker (the object on which its event loop sleeps) makes a check. At that time, and later
// whenever the table has changed, the task's process checks what the task waits for, and records the current holder and
// the time of the check.
//
// Each search starts from the task's own wait and follows the holders. A task in a cycle keeps checking. There is at
// most one path, because each task waits for one lock, and a lock with several holders ends the search.
//
// The following proves that a reported cycle was a deadlock. Let T be the time at which the last of its waits began. A
// cycle counts only if each of its records names a holder that was seen after T:
//   1. A task does nothing but wait from the beginning of its wait until its record is gone. All records are read once,
//      and then a second time, to make sure that they still exist for the same waits. So from T until some time between
//      the two readings, no task of the cycle did anything else: none took or released a lock.
//   2. At the time of the check, after T, task i + 1 held the lock that task i waits for, by a grant with a unique
//      fencing token. A task becomes the holder only by its own action: it takes the lock, or adopts the grant. By 1,
//      task i + 1 did neither after T. So it became the holder before T, and held the lock at T.
//   3. So at T, each task waited for a lock that the next task held, and no task could release anything.
//
// Without the condition "seen after T", the search could report a false cycle. For example, task i is seen waiting for
// task i + 1, which then releases this lock, and begins to wait for something else before task i checks again.
// CLOCK_MONOTONIC is one clock for all processors.
//
// The start time of a wait is read after a full fence, and the time of a check is read before a full fence. So a check
// with a later time sees what the task did before it waited.
//
// Only an event outside the cycle can still end the cycle: a timeout, the exptime of a grant, a death, a delete of the
// key, or another task that adopts a grant. Deaths and expired grants are checked before a cycle counts.
//
// The search does not find cycles that contain any of the following: a wait for a lock with several other holders; a
// wait for a kind of entry that names no blocker (WatchKind::blocker); more than kCycleMax waits; a wait for which
// there was no free record; a wait that polls; or a process of another world (another runtime directory).
//
// It ignores a cycle of one wait, which is a task that waits for itself, unless the caller has chosen Alone::counts.
// The waits of a stopped or busy process are not seen until the process continues. The search also ends at a grant that
// names no task, because its process does not know for certain which task will release it.
//
// The victim, which gets Code::deadlock, is the task that began to wait last, because its wait closed the cycle. The
// victim may fail to react, because its coroutine is no longer resumed or its process is stopped. So after
// kVictimPatienceNs, the victim is the task that began to wait second to last, and so on.
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
/// Says whether a task that waits for itself is a deadlock.
enum class Alone { ignored, counts };

/// Follows the holders from `own`. REQUIRES: `own` is recorded. Returns `none` if `own` is not in a cycle; `there` if
/// it is in a cycle, but the cycle is not proved or the victim is another task; `deadlock` if the victim is the task of
/// `own`. On deadlock, `keys` receives the keys that the cycle waits for, starting with the key of `own`.
Cycle find_cycle(const WaitTable& table, const Wait& own, std::uint64_t now_ns,
                 const std::function<Liveness(Token)>& judge, std::vector<std::string>& keys,
                 Alone alone = Alone::ignored);

/// A wait of this process that the search for deadlocks follows. REQUIRES: only one thread at a time makes calls.
class TrackedWait {
 public:
  using Judge = std::function<Liveness(Token)>;
  using LookAtBlocker = std::function<Blocker()>;

  /// Begins the wait, or continues it.
  void begin(Token self, std::uint32_t task, std::string_view key, Alone alone = Alone::ignored) noexcept;
  /// Ends the wait. keys() remains valid.
  void end() noexcept;
  bool going_on() const noexcept { return wait_.token != kNobody; }

  /// Returns the value of the table's changes() at the last search, or kNothing. While changes() still has this value,
  /// look() need not be called. For a wait for a lock with several holders, look() must always be called, because the
  /// lock may later have a single holder, which the table does not show.
  std::uint64_t quiet_at() const noexcept {
    return is_written_ && !in_cycle_ && wait_.blocker.known() ? changes_ : kNothing;
  }
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  /// Searches if a search may find something new. Call this repeatedly while the wait lasts. Returns true if the waiter
  /// is the victim of a deadlock: wake the waiter, and let it call settle().
  bool look(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);
  /// Searches again. Returns true if the deadlock of the last look() still exists.
  bool settle(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);

  /// Forgets the keys of an earlier wait.
  void forget_keys() noexcept { keys_.clear(); }
  /// Returns the keys of the last deadlock.
  const std::vector<std::string>& keys() const noexcept { return keys_; }

 private:
  bool has_record(WaitTable& table, const Judge& judge);
  Cycle search(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker);

  Wait wait_;  // token kNobody: no wait
  Alone alone_ = Alone::ignored;
  WaitRecord* record_ = nullptr;
  bool is_written_ = false;     // whether record_ has been written
  std::uint64_t changes_ = 0;   // the table's changes() at the last search
  std::uint64_t retry_ns_ = 0;  // take no record before this time
  bool in_cycle_ = false;
  bool is_victim_ = false;
  std::vector<std::string> keys_;
};

}  // namespace holdfast
