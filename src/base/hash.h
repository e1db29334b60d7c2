// Hashes keys with XXH3 and the segment's random seed, so that nobody can choose keys that collide.
#pragma once

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace holdfast {

/// Returns the hash of a key. The upper half selects the shard, and the lower half selects the bucket. The entry stores
/// the lower half.
inline std::uint64_t hash_key(const char* key, std::size_t length, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(key, length, seed);
}

}  // namespace holdfast
