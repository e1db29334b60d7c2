// A key to look up: its hash, and its last bytes as the zero-padded word that entries store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/hash.h"

namespace holdfast {

static_assert(std::endian::native == std::endian::little, "words of keys and values are compared as little endian");

inline std::uint64_t load_word(const char* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, 8);
  return word;
}

/// The `count` (0 to 7) bytes at `from` as a zero-padded word, without a call and without reading beyond them.
inline std::uint64_t load_tail(const char* from, std::size_t count) noexcept {
  if (count >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, from, 4);
    std::memcpy(&high, from + count - 4, 4);
    return low | std::uint64_t{high} << (count - 4) * 8;
  }
  if (count == 0) return 0;
  const auto byte = [from](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(from[i])} << i * 8; };
  return byte(0) | byte(count / 2) | byte(count - 1);
}

struct Key {
  const char* data;
  std::uint32_t length;
  std::uint32_t tail_at;  // bytes before the tail: whole words
  std::uint64_t tail;
  std::uint64_t hash;

  Key(std::string_view bytes, std::uint64_t seed) noexcept
      : data(bytes.data()),
        length(static_cast<std::uint32_t>(bytes.size())),
        tail_at(length & ~7U),
        tail(load_tail(data + tail_at, length & 7)),
        hash(hash_key(data, bytes.size(), seed)) {}

  /// A key to compare only.
  explicit Key(std::string_view bytes) noexcept
      : data(bytes.data()),
        length(static_cast<std::uint32_t>(bytes.size())),
        tail_at(length & ~7U),
        tail(load_tail(data + tail_at, length & 7)),
        hash(0) {}

  std::string_view bytes() const noexcept { return {data, length}; }
  std::uint32_t short_hash() const noexcept { return static_cast<std::uint32_t>(hash); }
};

}  // namespace holdfast
