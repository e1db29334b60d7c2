// Computes how a segment is divided, from its size and its number of shards. The division is always computed from these
// two numbers, on creation and on each attach, and never read from shared memory.
//
// A shard has about 1 MB, so that damage stays local and a repair is short (1 ms for each MB in use). A dictionary for
// larger values has fewer, larger shards, or even only one. A shard has at most 16 GB (2^30 granules), so that the sum
// of two granule numbers does not overflow 32 bits. A value has at most 4 GB.
#pragma once

#include <cstdint>

namespace holdfast {

struct Geometry {
  std::uint64_t size;          // the size of the segment, in bytes: whole pages
  std::uint32_t shards;        // a power of two
  std::uint32_t buckets;       // in each shard; a power of two
  std::uint32_t granules;      // in the arena of each shard
  std::uint64_t shards_at;     // where the first shard begins
  std::uint64_t shard_bytes;   // distance between two shards
  std::uint64_t free_bits_at;  // this and the next two members are offsets inside a shard
  std::uint64_t uses_at;
  std::uint64_t arena_at;

  /// Makes the geometry with the default number of shards. REQUIRES, here and below: the size is between kSizeMin and
  /// kSizeMax.
  static Geometry of(std::uint64_t size) noexcept;
  /// Makes the geometry with this number of shards. REQUIRES: is_possible(size, shards).
  static Geometry of(std::uint64_t size, std::uint32_t shards) noexcept;
  /// Makes the geometry with the default number of shards, or with fewer shards if a value of `largest` bytes needs
  /// them. If no number of shards is enough, uses the fewest.
  static Geometry for_values(std::uint64_t size, std::uint64_t largest) noexcept;
  /// Returns whether a segment of this size may have this number of shards.
  static bool is_possible(std::uint64_t size, std::uint32_t shards) noexcept;

  /// Returns whether memory is reserved when it is first used (dict/reserved.h). In this case, a byte for each shard,
  /// between the header page and the shards, says whether the shard was ever opened. A small dictionary, whose default
  /// number of shards is 1, is reserved as a whole when it is made.
  bool reserved_as_used() const noexcept;
  /// Returns how many bytes of the file are reserved when it is made.
  std::uint64_t reserved_at_first() const noexcept { return reserved_as_used() ? shards_at : size; }

  /// Returns the number of stripes (dict/versions.h) of each shard in a dictionary with versions. It is a power of two.
  /// All stripes together fill whole pages. The stripes of a shard are reserved together with the shard.
  std::uint32_t stripes() const noexcept;

  /// Returns the size, in granules, of the largest block that fits into an empty shard.
  std::uint32_t block_max() const noexcept { return granules - 1; }
  /// Returns the size, in bytes, of the largest value that fits under a key of up to kOrdinaryKey bytes.
  std::uint64_t value_max() const noexcept;
};

/// A length, in bytes, that hardly any key exceeds.
inline constexpr std::uint64_t kOrdinaryKey = 256;

inline constexpr std::uint64_t kSizeMin = 12288;

/// Rounds the size up to whole pages.
std::uint64_t round_size(std::uint64_t size) noexcept;

}  // namespace holdfast
