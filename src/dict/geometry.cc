#include "dict/geometry.h"

#include <algorithm>
#include <bit>

#include "base/parse.h"
#include "dict/layout.h"
#include "dict/lock_places.h"
#include "dict/reserved.h"

namespace holdfast {

namespace {

// A shard of this size has room for about 16,000 small entries. Repair rebuilds such a shard within a millisecond
// (benchmark: repair_full_shard), and its arena can still store large values.
constexpr std::uint64_t kShardTarget = std::uint64_t{1} << 20;
constexpr std::uint64_t kShardsMax = 65536;
// Benchmarks: "get, 100k numbers" and "bytes per entry".
constexpr std::uint64_t kBytesPerBucket = 64;
// The largest shard, in a dictionary for large values. In a larger dictionary, even the smallest possible number of
// shards leads to shards of more than half this size.
constexpr std::uint64_t kShardMost = std::uint64_t{16} << 30;
static_assert(kShardMost / 4 > kValueMax, "half of such a shard has room for any value");
static_assert(kShardMost / kGranule <= std::uint64_t{1} << 30, "the sum of two numbers of granules does not wrap");
static_assert(kSizeMax / kShardsMax / kGranule <= 1U << LockPlace::kBlockBits,
              "in a usual arena, every lock can be noted");
static_assert(kSizeMax / kShardsMax / 4096 < 1U << ReservedMark::kUnitBits, "in a usual arena, a unit is a page");

// With this value, few keys share a stripe, so few copies become outdated unnecessarily. Stripes make a dictionary
// larger by a sixteenth. No benchmark covers these two constants.
constexpr std::uint64_t kBytesPerStripe = 256;
constexpr std::uint32_t kStripesMin = 4096;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t to) noexcept { return (value + to - 1) / to * to; }

}  // namespace

std::uint64_t round_size(std::uint64_t size) noexcept { return align_up(size, 4096); }

namespace {

std::uint32_t usual_shards(std::uint64_t size) noexcept {
  const std::uint64_t body = round_size(size) - kHeaderBytes;
  std::uint32_t shards = 1;
  while (shards < kShardsMax && body / (shards * 2) >= kShardTarget - kShardTarget / 16) shards *= 2;
  return shards;
}

std::uint32_t fewest_shards(std::uint64_t size) noexcept {
  std::uint32_t shards = 1;
  while (round_size(size) / shards > kShardMost) shards *= 2;
  return shards;
}

}  // namespace

Geometry Geometry::of(std::uint64_t size) noexcept { return of(size, usual_shards(size)); }

bool Geometry::is_possible(std::uint64_t size, std::uint32_t shards) noexcept {
  return std::has_single_bit(shards) && shards >= fewest_shards(size) && shards <= usual_shards(size);
}

Geometry Geometry::for_values(std::uint64_t size, std::uint64_t largest) noexcept {
  Geometry g = of(size);
  while (g.value_max() < largest && is_possible(size, g.shards / 2)) g = of(size, g.shards / 2);
  return g;
}

bool Geometry::reserved_as_used() const noexcept { return usual_shards(size) > 1; }

std::uint32_t Geometry::stripes() const noexcept {
  return std::max(static_cast<std::uint32_t>(std::bit_floor(shard_bytes / kBytesPerStripe)), kStripesMin / shards);
}

std::uint64_t Geometry::value_max() const noexcept {
  const std::uint64_t most = std::uint64_t{block_max()} * kGranule;
  return std::min(most - std::min(most, sizeof(Entry) + kOrdinaryKey), kValueMax);
}

Geometry Geometry::of(std::uint64_t size, std::uint32_t shards) noexcept {
  Geometry g{};
  g.size = round_size(size);
  g.shards = shards;
  g.shards_at = kHeaderBytes + (g.reserved_as_used() ? align_up(shards, 64) : 0);
  g.shard_bytes = (g.size - g.shards_at) / shards / 64 * 64;
  g.buckets = static_cast<std::uint32_t>(std::bit_floor(g.shard_bytes / kBytesPerBucket));

  g.free_bits_at = align_up(sizeof(ShardHeader) + std::uint64_t{g.buckets} * 4, 64);
  // The part before the arena contains a free bit for each granule, and a use count for every kGranulesPerUses
  // granules.
  const std::uint64_t left = g.shard_bytes - g.free_bits_at;
  const std::uint64_t at_most = align_up(left / kGranule, 64);
  g.uses_at = g.free_bits_at + at_most / 8;
  g.arena_at = align_up(g.uses_at + at_most / kGranulesPerUses, 64);
  g.granules = static_cast<std::uint32_t>((g.shard_bytes - g.arena_at) / kGranule);
  return g;
}

}  // namespace holdfast
