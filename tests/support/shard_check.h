// Checks the invariants of a shard, above all that every granule belongs to exactly one entry, node, waiter, holder or
// free block.
//
// REQUIRES, for every call: no process changes the shard during the call.
#pragma once

#include <cstdint>
#include <string>

#include "dict/segment.h"
#include "dict/shard.h"

namespace holdfast::test {

/// Returns a description of the first fault in the shard, or "".
std::string check_shard(const Shard& shard);
/// Does the same for all shards of the segment.
std::string check_segment(Segment& segment);

struct ShardCount {
  std::uint32_t entries = 0;
  std::uint32_t nodes = 0;  // nodes of lists
  std::uint32_t waiters = 0;
  std::uint32_t holders = 0;
  std::uint32_t used_granules = 0;  // granules of entries, nodes, waiters and holders
  std::uint32_t free_granules = 0;  // granules of the free blocks, as counted in the walk
};
/// Returns the number of blocks of each kind. REQUIRES: check_shard() found nothing.
ShardCount count_shard(const Shard& shard);

}  // namespace holdfast::test
