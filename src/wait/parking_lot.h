// The parking lot: where the waiters of this process sleep.
//
// A parker is the place where one event loop (one Lua state, one thread) sleeps; a waiter is one of its tasks. Other
// processes know a waiter by its number. A wake-up is mail for the process (sync/mailbox.h): whichever thread comes to
// read it hands each number to the parker of that waiter.
//
// A wake-up may get lost: its sender can die, or the thread it was sent to. So a parker with waiters sleeps in short
// slices and looks, without any lock, at what they wait for (wait/watch.h): open, or granted to the waiter, is as good
// as mail. It looks at once when the mailbox has overflowed. Where several threads sleep, one of them listens and looks
// for all (wait/sleepers.h).
//
// A parker whose loop sleeps elsewhere has a descriptor for that loop to watch, or a connection with it, and the wake
// thread (wait/wake_thread.h) to listen and look for it. The thread that hands out mail makes the descriptors readable
// of the loops that got some (event_loops.cc).
//
// Thread safety: all calls, from any thread. The lot's mutex is never held while sleeping or while a shmtx is held.
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
#include "wait/promptness.h"
#include "wait/sleepers.h"
#include "wait/wake_thread.h"
#include "wait/watch.h"

namespace holdfast {

class ParkingLot;
class World;

/// What came free without a wake-up is noticed by the first of a queue after this long. Those behind it look as many
/// times rarer as there are before them, up to kRankMax: they need to only if the first does not, and where a hundred
/// processes wait, not all of them need to be awake all the time.
inline constexpr std::uint64_t kLookNs = 10'000'000;
inline constexpr std::uint32_t kRankMax = 4;

class Parker {
 public:
  explicit Parker(World& world) noexcept;
  ~Parker();
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  /// A new waiter's number, not 0; 0 if there are too many.
  std::uint32_t open_waiter();
  void close_waiter(std::uint32_t number) noexcept;

  /// Begins (or goes on with) a wait: forgets an earlier wake-up. The waiter as queues know it; arrival 0 if there is
  /// none of that number.
  Waiter begin(std::uint32_t number, Token self) noexcept;
  /// What the waiter waits for, and its place in the queue; 0: it has to poll. Gives the number of waiters of this
  /// parker that have to poll.
  std::size_t watch(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept;
  /// The waiting task may hold something, so the search for deadlocks follows its wait. True if the wait would never
  /// end.
  bool track(std::uint32_t number, std::uint32_t task, std::string_view key) noexcept;
  /// The keys of the last deadlock that track() told of, from the waiter's own on. Empty if there was none.
  std::vector<std::string> deadlock_keys(std::uint32_t number);
  /// The wait is over: the next one begins anew.
  void end(std::uint32_t number) noexcept;

  /// Sleeps until waiters of this parker are woken, a signal comes, or the deadline (CLOCK_MONOTONIC, ns) has passed.
  /// Returns how many it wrote to `woken`.
  std::size_t sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken);

  // --- event_loops.cc: for loops that sleep elsewhere ---

  /// The descriptor that is readable while sleep() has something to give: made on the first call, and anew when
  /// somebody closed it. Starts the wake thread. If either fails, the next call tries again.
  Expected<int> descriptor();
  /// For loops that can wait only for a connection of their own making: listens at a new path in the runtime directory,
  /// in place of an earlier listener or connection.
  Expected<std::string> listen();
  /// Takes the connection that this process has made there; the path goes. From now on a byte comes out of it when the
  /// descriptor would get readable. After a failure it still listens, unless the thread could not be started.
  Status accept();
  /// Ends what these two began.
  void disconnect() noexcept;
  /// Makes the descriptor readable at that time, or sends a byte; kNever: not. One alarm at a time. Fails as
  /// descriptor() does.
  Status set_alarm(std::uint64_t deadline_ns);
  /// False when the parker has a descriptor and no wake thread that listens for it: its waiters have to poll.
  bool attended() const noexcept;

  Promptness& promptness() noexcept { return promptness_; }
  const Promptness& promptness() const noexcept { return promptness_; }

 private:
  friend class ParkingLot;

  /// In a forked child: nobody waits here, and the descriptor is the parent's.
  void forget() noexcept;

  // REQUIRES, for the rest: the lot's mutex.

  /// The descriptor, if there is none or it was lost.
  Status describe();
  /// Tells the loop that sleep() has something to give.
  void signal() noexcept;
  /// The same after sleep() has given some of it, if there is more.
  void signal_rest() noexcept;

  ParkingLot& lot_;
  World& world_;
  Promptness promptness_;

  // Guarded by the lot's mutex.
  std::vector<std::uint32_t> ready_;
  std::size_t waiting_ = 0;    // waiters between begin and end
  std::size_t polling_ = 0;    // those of them without a place in a queue
  std::uint64_t look_ns_ = 0;  // when to look at what they wait for
  Berth berth_;
  platform::Readiness readiness_;
  platform::SelfConnection connection_;
  std::uint64_t alarm_ns_ = kNever;
  bool attended_ = true;
};

/// All waiters of this process: to which parker they belong, what they wait for, which of them were woken. A waiter's
/// number is an index into `slots_`, plus one.
class ParkingLot {
 public:
  /// Never destroyed: the wake thread may be in it while the process runs its exit handlers.
  static ParkingLot& get();

 private:
  friend class Parker;

  struct Slot {
    Parker* parker = nullptr;   // null: not in use
    std::uint64_t arrival = 0;  // 0: not waiting
    Watch watch;
    bool ready = false;
    bool polling = false;
    std::uint64_t place = 0;               // in the queue
    std::unique_ptr<TrackedWait> tracked;  // made when first needed
    std::uint64_t quiet_at = 0;            // its, here as it is asked for at every look
  };

  /// What a parker's thread is to do next.
  struct Rest {
    std::size_t count = 0;  // waiters that are ready
    bool sleeps = false;
    bool listens = false;            // on the mailbox; else on the parker's own word
    std::uint32_t seen = 0;          // of that word
    std::uint64_t next_look_ns = 0;  // not longer than that
  };

  ParkingLot();

  static void before_fork() { get().mutex_.lock(); }
  static void after_fork_in_parent() { get().mutex_.unlock(); }
  static void after_fork_in_child();

  /// Runs `change(Slot&)` if the number is a waiter of that parker.
  template <class Change>
  void with(Parker& parker, std::uint32_t number, Change change) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number - 1 < slots_.size() && slots_[number - 1].parker == &parker) change(slots_[number - 1]);
  }

  /// Hands out the mail of this process, then moves what is ready for `parker`; if that is nothing and it may sleep,
  /// its thread has to do so now, and to call again. Looks at what they wait for when it is time to, so also where mail
  /// keeps the process awake.
  Rest collect(Parker& parker, std::span<std::uint32_t> woken, std::uint64_t now_ns, bool may_sleep);

  // REQUIRES, for the rest: the lot's mutex.

  void close(std::uint32_t number) noexcept;
  static std::uint32_t rank_of(const Slot& slot) noexcept;
  static constexpr std::uint64_t look_after(std::uint64_t now_ns, std::uint32_t rank) noexcept {
    return now_ns + kLookNs * (rank + 1);
  }
  static void set_polling(Slot& slot, bool polling) noexcept;
  static void stop_waiting(Slot& slot) noexcept;
  static bool look_for_deadlock(World& world, LivenessCache& liveness, std::uint64_t changes, Slot& slot);
  void hand_out_mail(World& world);
  /// Looks for the parker if it is time to, or for all if it listens.
  void look_in_time(Parker& parker, bool listened, std::uint64_t now_ns);
  /// Until when the parker's thread may sleep.
  std::uint64_t next_look(const Parker& parker) const noexcept;
  void make_ready(std::uint32_t number);
  /// Marks those waiters of the parker ready, of all parkers if none is given, that would find what they wait for open
  /// or granted to them, or are in a deadlock. Of those who wait for one open entry only the first is marked: one is
  /// enough, and it wakes the next. Gives the lowest rank of those who go on waiting.
  std::uint32_t look_for(World& world, const Parker* parker);

  // --- event_loops.cc ---

  void remember_loop(Parker& parker);
  /// A waiter of the parker has begun to watch. Nobody hears of it if there is no thread to be had: it polls then.
  void attend_watching(Parker& parker) noexcept;
  /// Sees to it that the wake thread runs and takes a turn at that time at the latest.
  Status attend(Parker& parker, std::uint64_t deadline_ns);
  /// Tells the loops that have something to collect, but for that of `parker`, which is about to.
  void signal_ready(const Parker* parker) noexcept;
  /// What the wake thread does; when to do it again.
  static std::uint64_t take_turn() noexcept;
  std::uint64_t serve_loops();
  void look_sparingly(Parker& parker, std::uint64_t now_ns);

  std::mutex mutex_;
  bool closed_ = false;  // the process exits
  Sleepers sleepers_;
  std::uint64_t look_ns_ = 0;  // when the listener looks
  WakeThread wake_thread_;
  std::vector<Parker*> in_loops_;  // those whose loop sleeps elsewhere, or did
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::tuple<const Entry*, std::uint64_t, std::uint32_t>> unattended_;  // scratch of look_for()
};

}  // namespace holdfast
