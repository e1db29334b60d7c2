// Repairs a shard: rebuilds everything that is derived from the chains, after the owner of a shard's mutex died or
// damage was found.
//
// A repair cuts each chain at the first link that does not lead to an entry of that chain, and each list before the
// first inconsistent node. Then it frees all blocks that no chain reaches. It writes only derived state and the links
// that it cuts. So a repair may be interrupted at any point and started again, and repeating a repair has no effect. A
// repair takes about 20 ns for each entry.
//
// A repair also initialises a shard, which consists of zeros, when the shard is first used.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <cstdint>

#include "dict/shard.h"

namespace holdfast {

/// Repairs the shard. Returns the number of chains and lists that were cut. After a crash this is 0, unless memory was
/// overwritten.
std::uint32_t repair(const Shard& shard) noexcept;

/// Returns whether chains, queues, holder lists, lists, bins and counts match the blocks of the arena, and keys match
/// their hashes. Finds damage that operations have not found yet, such as an entry behind a lost link, a free block
/// that is not in a bin, or a wrong count. Cuts off every entry whose hash does not match its key. If audit() returns
/// false, repair() makes it return true.
///
/// Takes a bounded number of steps for each granule, whatever the shard contains.
bool audit(const Shard& shard, std::uint64_t seed) noexcept;

}  // namespace holdfast
