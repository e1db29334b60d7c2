// The parking lot contains the sleeping waiters of this process.
//
// A parker is the object on which one event loop (a Lua state, or a thread) sleeps. A waiter is a task of the loop that
// waits for a lock. Other processes know a waiter by its number. A wake-up is mail for the process (sync/mailbox.h).
// The first thread that reads the mail passes each number to the parker of that waiter.
//
// A wake-up may get lost, because its sender or its receiving thread may die. So a parker with waiters sleeps in slices
// and checks, without any lock, what the waiters wait for (wait/watch.h). A waiter counts as woken if its lock is
// open or granted to it, or if it is no longer in the lock's queue. If the mailbox has overflowed, the parker checks
// immediately. If several threads sleep, one of them listens and checks for all of them (wait/sleepers.h).
//
// The slices are short, unless a death watch (wait/death_watch.h) reports deaths. With a death watch, the length of the
// slices matters only if a process is stopped after it has stored a change and before it has posted the wake-up.
//
// The parker of a foreign event loop, which sleeps in poll or epoll, has either a descriptor for that loop to watch, or
// a connection with the loop. The wake thread (wait/wake_thread.h) listens and checks for such parkers. The thread
// that distributes the mail then makes the descriptor of each loop with mail readable (event_loops.cc).
//
// Thread safety: any thread may make any call. The lot's mutex is never held while the thread sleeps or holds a shmtx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/token.h"
#include "dict/wait_queue.h"
#include "platform/platform.h"
#include "wait/deadlock.h"
#include "wait/death_watch.h"
#include "wait/promptness.h"
#include "wait/sleepers.h"
#include "wait/wake_thread.h"
#include "wait/watch.h"

namespace holdfast {

class ParkingLot;
class World;

/// The time within which the first waiter of a queue notices a release without a wake-up. For a later waiter, this time
/// is longer by kLookNs for each of up to kRankMax waiters before it. Otherwise, a hundred waiting processes would be
/// awake all the time. The check of a later waiter matters only if the first waiter does not check. The benchmark for
/// this constant and the next two is "1,000 waiters while nothing happens"; the benchmark "takeover" also covers
/// kLookNs.
inline constexpr std::uint64_t kLookNs = 10'000'000;
inline constexpr std::uint32_t kRankMax = 4;
/// The interval between the checks of any waiter when a death watch is on. It is shorter than the time within which a
/// process must check to keep its waiters in their queues (dict/wait_queue.h).
inline constexpr std::uint64_t kRestNs = 500'000'000;
static_assert(2 * kRestNs < kWaiterPatienceMs * kNsPerMs);

class Parker {
 public:
  explicit Parker(World& world) noexcept;
  ~Parker();
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  /// Opens a waiter. Returns its number, or 0 if there are too many waiters.
  std::uint32_t open_waiter();
  void close_waiter(std::uint32_t number) noexcept;

  /// Begins a wait, or continues it, and forgets an earlier wake-up. Returns the waiter in the form that queues use,
  /// with arrival 0 if the parker has no waiter with that number.
  Waiter begin(std::uint32_t number, Token self) noexcept;
  /// Keeps the watch's segment until the waiter's next watch, or until the end of its wait. Later checks use this
  /// watch. REQUIRES: the caller still has the EpochGuard in which the watch was made.
  void keep(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept;
  /// Sets what the waiter waits for, and its position in the queue (0 means that it must poll). Returns how many
  /// waiters of this parker must poll. REQUIRES: keep() was called with that watch, or with an earlier watch of the
  /// same segment.
  std::size_t watch(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept;
  /// Tracks the wait of a task that may hold something, so that the search for deadlocks can follow it. Returns true if
  /// the wait would never end.
  bool track(std::uint32_t number, std::uint32_t task, std::string_view key, Alone alone) noexcept;
  /// Returns the keys of the last deadlock that track() found, starting with the waiter's own key. Returns an empty
  /// list if there was no deadlock.
  std::vector<std::string> deadlock_keys(std::uint32_t number);
  /// Ends the wait.
  void end(std::uint32_t number) noexcept;

  /// Sleeps until waiters of this parker are woken, a signal arrives, or the deadline (CLOCK_MONOTONIC, ns) has passed.
  /// Returns how many waiters it wrote to `woken`.
  std::size_t sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken);

  // --- event_loops.cc: for foreign event loops ---

  /// Returns the descriptor, which is readable while sleep() has something to return. The first call makes the
  /// descriptor, and so does the first call after the host has closed it. Also starts the wake thread. After a failure,
  /// the next call tries again.
  Expected<int> descriptor();
  /// Listens at a new path in the runtime directory, and ends an earlier listener or connection. Use this for loops
  /// that can wait only for connections that they have opened themselves.
  Expected<std::string> listen();
  /// Accepts the connection that this process has made to that path, and removes the path. From now on, a byte arrives
  /// on the connection each time the descriptor would become readable. After a failure the parker still listens, unless
  /// the thread could not be started.
  Status accept();
  /// Ends listen() and accept().
  void disconnect() noexcept;
  /// Makes the descriptor readable, or sends a byte, at the given time. kNever cancels the alarm. A parker has only one
  /// alarm. Fails like descriptor().
  Status set_alarm(std::uint64_t deadline_ns);
  /// Returns false if the parker's loop needs the wake thread but the thread cannot run. The waiters must then poll.
  bool attended() const noexcept;

  /// Returns whether the kernel tells this process when others die.
  bool hears_of_deaths() const noexcept;

  Promptness& promptness() noexcept { return promptness_; }
  const Promptness& promptness() const noexcept { return promptness_; }

 private:
  friend class ParkingLot;

  /// In a forked child, drops the waiters and the descriptor, which belong to the parent.
  void forget() noexcept;

  // REQUIRES, for all calls below: the lot's mutex is held.

  /// Makes the descriptor if there is none or if it was lost.
  Status describe();
  /// Returns when to check what the waiters wait for; kNever if there are no waiters.
  std::uint64_t next_check() const noexcept { return waiting_ != 0 ? look_ns_ : kNever; }
  /// Notifies the loop that sleep() has something to return.
  void signal() noexcept;
  /// Notifies the loop if more waiters are ready after sleep() has returned some; otherwise clears the signal.
  void signal_rest() noexcept;

  ParkingLot& lot_;
  World& world_;
  Promptness promptness_;

  // Guarded by the lot's mutex.
  std::vector<std::uint32_t> ready_;
  std::size_t waiting_ = 0;    // waiters between begin and end
  std::size_t polling_ = 0;    // waiters without a position in a queue
  std::uint64_t look_ns_ = 0;  // when to check what they wait for
  SleepSlot sleep_slot_;
  platform::Readiness readiness_;
  platform::SelfConnection connection_;
  std::uint64_t alarm_ns_ = kNever;
  bool attended_ = true;
  bool has_slept_ = false;
};

/// Contains all waiters of this process: their parkers, what they wait for, and which of them were woken. A waiter's
/// number is its index in `slots_`, plus one.
class ParkingLot {
 public:
  /// Returns the only lot, which is never destroyed, because the wake thread may use it while the process runs its exit
  /// handlers.
  static ParkingLot& get();

 private:
  friend class Parker;

  struct Slot {
    Parker* parker = nullptr;   // null: not in use
    std::uint64_t arrival = 0;  // 0: not waiting
    Watch watch;
    std::shared_ptr<const Segment>
        watched;  // keeps the memory that `watch` uses, even after the dictionary was removed
    bool ready = false;
    bool polling = false;
    std::uint32_t looks = 0;               // the lot's `looks_` when the current step of the wait began
    std::uint64_t place = 0;               // position in the queue
    std::unique_ptr<TrackedWait> tracked;  // made when first needed
    std::uint64_t quiet_at = 0;            // a copy of tracked->quiet_at(), which every check reads
  };

  /// Says what a parker's thread must do next.
  struct Rest {
    std::size_t count = 0;  // waiters that are ready
    bool sleeps = false;
    bool listens = false;            // sleeps on the mailbox; otherwise on the parker's own word
    std::uint32_t seen = 0;          // value of the parker's own word
    std::uint64_t next_look_ns = 0;  // do not sleep beyond this time
  };

  ParkingLot();

  static void before_fork() { get().mutex_.lock(); }
  static void after_fork_in_parent() { get().mutex_.unlock(); }
  static void after_fork_in_child();

  /// Runs `change(Slot&)` if the number belongs to a waiter of that parker.
  template <class Change>
  void with(Parker& parker, std::uint32_t number, Change change) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number - 1 < slots_.size() && slots_[number - 1].parker == &parker) change(slots_[number - 1]);
  }

  /// Distributes the mail of this process, then moves the waiters that are ready from `parker` to `woken`. If there are
  /// none and the thread may sleep, the thread must now sleep, then call again. When a check is due,
  /// also checks what the waiters wait for, even if mail keeps the process awake.
  Rest collect(Parker& parker, std::span<std::uint32_t> woken, std::uint64_t now_ns, bool may_sleep);

  // REQUIRES, for all calls below: the lot's mutex is held.

  void close(std::uint32_t number) noexcept;
  static bool searches(const Slot& slot) noexcept { return slot.tracked != nullptr && slot.tracked->going_on(); }
  static std::uint32_t rank_of(const Slot& slot) noexcept;
  /// Returns how long to wait until the next check for the waiter.
  std::uint64_t pause_of(const Slot& slot) const noexcept;
  static bool has_place(const Slot& slot, const WaiterId& waiter) noexcept;
  static void set_polling(Slot& slot, bool polling) noexcept;
  static void set_watch(Slot& slot, const Watch& watch, std::uint64_t place) noexcept;
  static void stop_waiting(Slot& slot) noexcept;
  static bool look_for_deadlock(World& world, LivenessCache& liveness, std::uint64_t changes, Slot& slot);
  void hand_out_mail(World& world);
  /// If a check is due, checks what the parker's waiters wait for. If the parker was the listener, checks for all
  /// waiters.
  void look_in_time(Parker& parker, bool listened, std::uint64_t now_ns);
  /// Returns the time (ns) until which the parker's thread may sleep.
  std::uint64_t next_look(const Parker& parker) const noexcept;
  void make_ready(std::uint32_t number);
  /// Checks what the waiters of the parker (of all parkers if `parker` is null) wait for. Marks a waiter ready
  /// if its lock is open or granted to it, if it is no longer in its queue, or if it is the victim of a deadlock. If
  /// several waiters wait for one open entry, marks only the first, which later wakes the next. Returns how long to
  /// wait until the next check for the remaining waiters.
  std::uint64_t look_for(World& world, const Parker* parker);
  /// Handles the events of the death watch.
  static bool on_death_watch(World& world, DeathWatch::Event event) noexcept;
  bool is_waiting() const noexcept;
  /// Makes all parkers with waiters check at `time_ns` at the latest.
  void look_by(std::uint64_t time_ns) noexcept;

  // --- event_loops.cc ---

  void remember_loop(Parker& parker);
  /// Starts the wake thread for the parker after a waiter has begun to watch. Ignores failures, because without the
  /// thread the parker polls.
  void attend_watching(Parker& parker) noexcept;
  /// Makes sure that the wake thread runs, and that its next round is at the deadline at the latest.
  Status attend(Parker& parker, std::uint64_t deadline_ns);
  /// Signals the loops that have something to collect, except the loop of `parker`, which collects anyway.
  void signal_ready(const Parker* parker) noexcept;
  /// Runs one round of the wake thread. Returns when the next round is due, or 0 if the thread must end.
  static std::uint64_t run_round() noexcept;
  std::uint64_t serve_loops();
  void look_sparingly(Parker& parker, std::uint64_t now_ns);

  std::mutex mutex_;
  bool closed_ = false;  // the process is exiting
  Sleepers sleepers_;
  std::uint64_t look_ns_ = 0;  // when the listener checks
  WakeThread wake_thread_;
  DeathWatch death_watch_;
  std::uint32_t looks_ = 0;  // number of checks by the death watch; a check may have missed a wait that began during it
  std::vector<Parker*> in_loops_;  // the parkers of foreign event loops
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::tuple<const Entry*, std::uint64_t, std::uint32_t>> unattended_;  // scratch memory of look_for()
};

}  // namespace holdfast
