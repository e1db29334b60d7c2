// What a key is held by and waited for by, as seen without the mutex: for people, and for monitors that look again and
// again. lock/lock_info.h has the same with the mutex, exactly and at one instant.
//
// What is seen of holders is of one instant, or no answer at all: read as values are (dict/shard.h). Waiters stand in
// queues, which are hints: one that comes or leaves meanwhile may be missed, or seen in the wrong place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/token.h"
#include "dict/dictionary.h"
#include "lock/lock_info.h"

namespace holdfast {

struct WaiterInfo {
  Token owner = kNobody;         // its process, which may be dead
  std::uint64_t arrival_ns = 0;  // when the wait began
  std::uint32_t want = 0;        // permits that it wants, 1 for a lock
  bool watches = false;          // it waits for the end of the grant, and does not want the lock
};

/// Writes as many holders and waiters as there is room for: the holders that have held longest, the oldest first, and
/// the waiters in the order of their queue, then watchers. `liveness` is unknown: the kernel is not asked. ok, also for
/// a key that nothing is known of; timeout (it changed at each look), corrupt, removed.
Code look_at_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders,
                     std::span<WaiterInfo> waiters, HolderCount& count) noexcept;

}  // namespace holdfast
