// Who waits for a lock, in order of arrival: blocks of the shard's arena, hung on the lock's entry.
//
// The queue is a hint. It is not reached by a chain, so repair gives its blocks back; whoever waits looks again by
// itself after a while and queues anew. A waiter that has not looked for kWaiterPatience is taken for gone.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/arena.h"
#include "dict/shard.h"

namespace holdfast {

class World;

inline constexpr std::uint64_t kWaiterPatienceMs = 3000;

struct Waiter {
  Token owner;            // the waiting process
  std::uint32_t number;   // which of its waiters; 0: none
  std::uint64_t arrival;  // when the wait began (CLOCK_MONOTONIC, ns)
  std::uint64_t place;    // what add() gave: the block, and above it the shard's number of repairs; 0: none
};

class WaitQueue {
 public:
  WaitQueue(const Shard& shard, Arena& arena, LockFields& lock) noexcept : shard_(shard), arena_(arena), lock_(lock) {}

  bool empty() const noexcept { return lock_.head.load(kRelaxed) == 0; }
  /// Adds the waiter, by its arrival, or refreshes it if it is there still. Its place, 0 if there is no memory.
  std::uint64_t add(const Waiter& waiter) noexcept;
  /// Takes it out; false if it was not there.
  bool remove(const Waiter& waiter) noexcept;
  /// Takes out and returns the first whose process has not given up its slot; number 0 if there is none.
  Waiter pop(World& world) noexcept;

 private:
  bool is_waiter(std::uint32_t block) const noexcept;
  WaiterFields& fields(std::uint32_t block) const noexcept;
  bool is_here(const Waiter& waiter) const noexcept;
  std::uint64_t place_of(std::uint32_t block) const noexcept {
    return shard_.header().repairs.load(kRelaxed) << 32 | block;
  }
  Word32& previous(std::uint32_t block) const noexcept { return shard_.entry(block).hash; }
  std::uint32_t create(const Waiter& waiter) noexcept;
  bool unlink(std::uint32_t block) noexcept;
  std::uint32_t give_up() noexcept;

  const Shard& shard_;
  Arena& arena_;
  LockFields& lock_;
};

}  // namespace holdfast
