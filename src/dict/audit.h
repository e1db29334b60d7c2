// Looks at all of a shard for damage that no operation has met yet: an entry that a lost link led to, a free block that
// no bin has, a count that is off.
#pragma once

#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

/// Whether chains, queues, holds, lists, bins and counts fit the blocks of the arena, and keys their hashes. An entry
/// that its key does not lead to is cut off. If it is false, repair() makes it true.
///
/// Takes a bounded number of steps for each granule, whatever the shard holds. REQUIRES: the shard's mutex.
bool audit(const Shard& shard, std::uint64_t seed) noexcept;

}  // namespace holdfast
