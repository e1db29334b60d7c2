// Hash of keys: XXH3 with the segment's random seed, so that no one can choose keys that collide.
#pragma once

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace holdfast {

/// Upper half picks the shard, lower half the bucket; the lower half is kept in the entry.
inline std::uint64_t hash_key(const char* key, std::size_t length, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(key, length, seed);
}

}  // namespace holdfast
