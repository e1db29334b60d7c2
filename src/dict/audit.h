// Checks a whole shard for damage that no operation has met yet: an entry behind a lost link, a free block that no bin
// has, a wrong count.
#pragma once

#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

/// Whether chains, queues, holder lists, lists, bins and counts fit the blocks of the arena, and keys their hashes.
/// Cuts off every entry with another hash than its key's. If it returns false, repair() makes it true.
///
/// Takes a bounded number of steps for each granule, whatever the shard contains. REQUIRES: the shard's mutex.
bool audit(const Shard& shard, std::uint64_t seed) noexcept;

}  // namespace holdfast
