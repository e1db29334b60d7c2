// Where the waiters of this process sleep.
//
// A parker is the place where one event loop (one Lua state, one thread) sleeps; a waiter is one of its coroutines.
// Other processes know a waiter by its number. A wake-up is mail in the process's box (sync/mailbox.h): whoever of the
// process comes to read it hands each number to the parker it belongs to.
//
// A wake-up may get lost: its sender can die, or the one it was sent to. So a parker with waiters sleeps in short
// slices and looks, without any lock, at what they wait for (lock/watch.h): open, or granted to the waiter, is as good
// as mail. It looks at once when the box has overflowed. Where several threads sleep, one of them listens and looks for
// all (lock/sleepers.h).
//
// A parker whose loop sleeps elsewhere has a descriptor for that loop to watch, or a connection with it, and the helper
// thread (lock/pump.h) to listen and look for it. Whoever hands out mail makes the descriptors readable of those who
// got some.
//
// Thread safety: all calls, from any thread. The lot's mutex is never held while sleeping or while a shmtx is held.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "dict/wait_queue.h"
#include "lock/promptness.h"
#include "lock/sleepers.h"
#include "lock/watch.h"
#include "platform/platform.h"

namespace holdfast {

class World;

class Parker {
 public:
  explicit Parker(World& world) noexcept : world_(world) {}
  ~Parker();
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  /// A new waiter's number, not 0; 0 if there are too many.
  std::uint32_t open_waiter();
  void close_waiter(std::uint32_t number) noexcept;

  /// Begins (or goes on with) a wait: forgets an earlier wake-up. The waiter as queues know it, arrival 0 if there is
  /// none of that number.
  Waiter begin(std::uint32_t number, Token self) noexcept;
  /// What the waiter waits for, and its place in the queue; 0: it has to poll. Gives the number of waiters of this
  /// parker that have to poll.
  std::size_t watch(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept;
  /// The agent that waits may hold something, so its wait is one that the search for deadlocks follows. Whether it
  /// found that it would never end.
  bool track(std::uint32_t number, std::uint32_t agent, std::string_view key) noexcept;
  /// The keys of the last deadlock that track() told of, from the waiter's own on. Empty if there was none.
  std::vector<std::string> deadlock_keys(std::uint32_t number);
  /// The wait is over: the next one begins anew.
  void end(std::uint32_t number) noexcept;

  /// Sleeps until waiters of this parker are woken, a signal comes, or the deadline (CLOCK_MONOTONIC, ns) has passed.
  /// Returns how many it wrote to `woken`.
  std::size_t sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken);

  /// The descriptor that is readable while sleep() has something to give, made on the first call and made anew when
  /// somebody closed it. Sees to it that the helper thread runs: a failure is one of both, and the next call tries
  /// again.
  Expected<int> descriptor();
  /// For loops that can wait for a connection of their own making only: listens at a new path in the runtime directory,
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
  /// False when the parker has a descriptor and no helper thread that listens for it: its waiters have to poll.
  bool attended() const noexcept;

  Promptness& promptness() noexcept { return promptness_; }
  const Promptness& promptness() const noexcept { return promptness_; }

 private:
  friend class ParkingLot;

  /// In a forked child: nobody waits here, and the descriptor is the parent's.
  void forget() noexcept;
  /// Tells the loop that sleep() has something to give. REQUIRES: the lot's mutex; the next one too.
  void signal() noexcept;
  /// The same after sleep() has given some of it, if there is more.
  void signal_rest() noexcept;

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

}  // namespace holdfast
