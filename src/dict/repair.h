// Repair: rebuilds everything derived from the chains, after the owner of a shard's mutex died or damage was met.
//
// Cuts each chain at the first link that does not lead to an entry of that chain, and each list before the first node
// that makes no sense, then frees all that is not reached. Writes only derived state and cuts, so it may be killed and
// begun again at any point, and repairing a repaired shard changes nothing. Takes about 20 ns per entry.
//
// It also makes a shard out of zeros when the shard is first used.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

/// Returns the number of chains and lists that were cut: 0 after a crash alone, more only if memory was overwritten.
std::uint32_t repair(const Shard& shard) noexcept;

/// Whether chains, queues, holder lists, lists, bins and counts fit the blocks of the arena, and keys their hashes:
/// finds damage that no operation has met yet, such as an entry behind a lost link, a free block that no bin has, a
/// wrong count. Cuts off every entry with another hash than its key's. If it returns false, repair() makes it true.
///
/// Takes a bounded number of steps for each granule, whatever the shard contains.
bool audit(const Shard& shard, std::uint64_t seed) noexcept;

}  // namespace holdfast
