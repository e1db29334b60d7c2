// Where the waiters of this process sleep.
//
// A parker is the place where one event loop (one Lua state, one thread) sleeps; a waiter is one of its coroutines.
// Other processes know a waiter by its number. A wake-up is mail in the process's box (sync/bell.h): whoever of the
// process comes to read it hands each number to the parker it belongs to.
//
// A wake-up may get lost: its sender can die, or the one it was sent to. So a parker with waiters sleeps in short
// slices and looks, without any lock, at the words of what they wait for: free, expired, owned by the dead, or granted
// to the waiter is as good as mail. It looks at once when the box has overflowed.
//
// Thread safety: all calls, from any thread. The lot's mutex is never held while sleeping or while a shmtx is held.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/token.h"
#include "dict/wait_queue.h"

namespace holdfast {

class World;

/// The words of a lock entry that say whether waiting still makes sense. They stay mapped for the process's life.
struct Watch {
  const Word64* owner = nullptr;
  const Word64* expiry = nullptr;
  const Word32* reserved = nullptr;
};

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
  /// The wait is over: the next one begins anew.
  void end(std::uint32_t number) noexcept;

  /// Sleeps until waiters of this parker are woken, a signal comes, or the deadline (CLOCK_MONOTONIC, ns) has passed.
  /// Returns how many it wrote to `woken`.
  std::size_t sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken);

 private:
  friend class ParkingLot;

  void forget() noexcept {
    ready_.clear();
    waiting_ = 0;
    polling_ = 0;
  }

  World& world_;

  // Guarded by the lot's mutex.
  std::vector<std::uint32_t> ready_;
  std::size_t waiting_ = 0;  // waiters between begin and end
  std::size_t polling_ = 0;  // those of them without a place in a queue
};

}  // namespace holdfast
