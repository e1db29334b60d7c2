// What the parking lot knows of one waiter, and how urgent it is to look at what that one waits for.
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "dict/shard.h"
#include "lock/deadlock.h"
#include "lock/watch.h"

namespace holdfast {

class Parker;

/// What came free without a wake-up is noticed by the first of a queue after this long. Those behind it look as many
/// times rarer as there are before them, up to kRankMax: they need to only if the first does not, and where a hundred
/// processes wait, not all of them need to be awake all the time.
inline constexpr std::uint64_t kLookNs = 10'000'000;
inline constexpr std::uint32_t kRankMax = 4;

struct WaiterSlot {
  Parker* parker = nullptr;   // null: not in use
  std::uint64_t arrival = 0;  // 0: not waiting
  Watch watch;
  bool ready = false;
  bool polling = false;
  std::uint64_t place = 0;               // in the queue
  std::unique_ptr<TrackedWait> tracked;  // made when first needed
  std::uint64_t quiet_at = 0;            // its, here as it is asked for at every look
};

/// How many stand before it, at most kRankMax; also where it does not stand in the queue. Without any lock: a hint.
/// None where others may look for who it waits for.
inline std::uint32_t rank_of(const WaiterSlot& slot) noexcept {
  const Watch& watch = slot.watch;
  if (slot.tracked != nullptr && slot.tracked->going_on()) return 0;
  if (slot.place == 0) return kRankMax;
  if (watch.queue == nullptr) return 0;
  std::uint32_t block = watch.queue->head.load(kRelaxed);
  for (std::uint32_t rank = 0; rank < kRankMax && watch.shard->holds_header(block); ++rank) {
    if (block == static_cast<std::uint32_t>(slot.place)) return rank;
    block = watch.shard->entry(block).next.load(kRelaxed);
  }
  return kRankMax;
}

constexpr std::uint64_t look_after(std::uint64_t now_ns, std::uint32_t rank) noexcept {
  return now_ns + kLookNs * (rank + 1);
}

}  // namespace holdfast
