// All waiters of this process: which parker they belong to, what they wait for, who of them was woken.
//
// What serves the waiters themselves is in parking_lot.cc, what serves the loops that sleep elsewhere in
// parking_loops.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "lock/parking.h"
#include "lock/pump.h"
#include "lock/sleepers.h"
#include "lock/waiter_slot.h"

namespace holdfast {

/// What a parker's thread is to do next.
struct Rest {
  std::size_t count = 0;  // waiters that are ready
  bool sleeps = false;
  bool listens = false;            // on the bell; else on the parker's own word
  std::uint32_t seen = 0;          // of that word
  std::uint64_t next_look_ns = 0;  // not longer than that
};

/// A waiter's number is an index into `slots_`, plus one.
class ParkingLot {
 public:
  /// Never destroyed: the helper thread may be in it while the process runs its exit handlers.
  static ParkingLot& get();

  std::uint32_t open(Parker& parker);
  void close(Parker& parker, std::uint32_t number) noexcept;
  void close_all(Parker& parker) noexcept;

  /// Runs `change(WaiterSlot&)` if the number is a waiter of that parker.
  template <class Change>
  void with(Parker& parker, std::uint32_t number, Change change) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (WaiterSlot* slot = slot_of(parker, number); slot != nullptr) change(*slot);
  }

  // These: REQUIRES the lot's mutex, as in with().
  static void set_polling(Parker& parker, WaiterSlot& slot, bool polling) noexcept;
  static void stop_waiting(Parker& parker, WaiterSlot& slot) noexcept;
  /// A waiter of the parker has begun to watch. Nobody hears of it if there is no thread to be had: it polls then.
  void attend_watching(Parker& parker) noexcept;

  /// Hands out the mail of this process, then moves what is ready for `parker`; if that is nothing and it may sleep,
  /// its thread has to do so now, and to call again. Looks at what they wait for when it is time to, so also where mail
  /// keeps the process awake.
  Rest collect(Parker& parker, std::span<std::uint32_t> woken, std::uint64_t now_ns, bool may_sleep);

  // --- parkers whose loop sleeps elsewhere: see parking.h ---
  Expected<int> descriptor(Parker& parker);
  Expected<std::string> listen(Parker& parker);
  Status accept(Parker& parker);
  void disconnect(Parker& parker) noexcept;
  Status set_alarm(Parker& parker, std::uint64_t deadline_ns);
  bool attended(const Parker& parker) noexcept;

 private:
  ParkingLot();

  static void before_fork() { get().mutex_.lock(); }
  static void after_fork_in_parent() { get().mutex_.unlock(); }
  static void after_fork_in_child();

  // All below: REQUIRES the lot's mutex.

  WaiterSlot* slot_of(const Parker& parker, std::uint32_t number) noexcept {
    return number - 1 < slots_.size() && slots_[number - 1].parker == &parker ? &slots_[number - 1] : nullptr;
  }
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

  void remember_loop(Parker& parker);
  /// Gives the parker a descriptor if it has none, or none any more.
  Status describe(Parker& parker);
  /// Sees to it that the helper thread runs and takes a turn at that time at the latest.
  Status attend(Parker& parker, std::uint64_t deadline_ns);
  /// Tells the loops of those who have something to collect, but for that of `parker`, which is about to.
  void signal_ready(const Parker* parker) noexcept;
  /// What the helper thread does; when to do it again.
  static std::uint64_t take_turn() noexcept;
  std::uint64_t serve_loops();
  void look_sparingly(Parker& parker, std::uint64_t now_ns);

  std::mutex mutex_;
  bool closed_ = false;  // the process exits
  Sleepers sleepers_;
  std::uint64_t look_ns_ = 0;  // when the listener looks
  Pump pump_;
  std::vector<Parker*> in_loops_;  // those whose loop sleeps elsewhere, or did
  std::vector<WaiterSlot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::tuple<const Entry*, std::uint64_t, std::uint32_t>> unattended_;  // scratch of look_for()
};

}  // namespace holdfast
