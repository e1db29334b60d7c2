// Finds what can be reclaimed in a shard: grants and waiters of dead processes, and locks and permits that ended
// without the shard's mutex.
//
// A check keeps only the oldest owner of each process slot, so that it finds some dead owners, however many there are.
// After a check that finds no dead owner, the shard is not checked again for one second per MB of its size, or for a
// minute if that is shorter. So a dictionary full of locks of living processes stays fast.
//
// The kernel is asked here, without the shard's mutex. Later, under the mutex, exactly the processes that were found
// dead here count as dead. They stay dead, because a token is never reused.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/token.h"
#include "dict/shard.h"
#include "world/process_table.h"

namespace holdfast {

class World;

class DeadOwners {
 public:
  /// Scans a shard, and asks the kernel once about each owner. `flush` is the dictionary's flush epoch. REQUIRES: the
  /// caller holds no shmtx.
  DeadOwners(const Shard& shard, World& world, std::uint32_t flush) noexcept;

  bool has(Token token) const noexcept {
    const std::uint32_t slot = slot_of(token);
    return token != kNobody &&
           (slot >= kSlots || chosen_[slot] == token);  // if there is no such slot, the token was never issued
  }
  bool any() const noexcept {
    return std::any_of(chosen_.begin(), chosen_.end(), [](Token token) { return token != kNobody; });
  }
  /// Returns the total size, in granules, of the locks and permits that seem to be free, expired or flushed.
  std::uint32_t ended() const noexcept { return ended_; }

 private:
  void add(Token token) noexcept;
  bool has_ended(const EntryView& view) const noexcept;
  std::uint32_t add_holders(const Shard& shard, const EntryView& holdable) noexcept;
  std::uint32_t add_chain(const Shard& shard, std::uint32_t block, EntryType type) noexcept;

  World& world_;
  const std::uint32_t flush_;
  const std::uint64_t now_ms_;
  std::uint32_t ended_ = 0;
  std::uint32_t last_owner_ = 0;  // the owner bits of the last lock (base/token.h)
  /// One owner of each slot, preferably a dead one. If several owners are dead, the next check finds the others.
  std::array<Token, kSlots> chosen_{};
};

}  // namespace holdfast
