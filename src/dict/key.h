// A key to look up, with its hash. Its last bytes are in a zero-padded word, as in entries. This header also copies
// keys and bytes to shared memory, zero-padded to whole words, and copies bytes back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/atomic.h"
#include "base/hash.h"
#include "platform/platform.h"

namespace holdfast {

static_assert(std::endian::native == std::endian::little, "words of keys and values are compared as little endian");

inline std::uint64_t load_word(const char* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, 8);
  return word;
}

/// Returns the `count` (0 to 7) bytes at `from` as a zero-padded word. Does not call other functions or read beyond
/// these bytes.
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

/// Stores 1 to 7 bytes of a word: the inverse of load_tail().
inline void store_tail(char* to, std::uint64_t word, std::size_t count) noexcept {
  if (count >= 4) {
    const auto low = static_cast<std::uint32_t>(word);
    const auto high = static_cast<std::uint32_t>(word >> (count - 4) * 8);
    std::memcpy(to, &low, 4);
    std::memcpy(to + count - 4, &high, 4);
    return;
  }
  const auto byte = [word](std::size_t i) { return static_cast<char>(word >> i * 8); };
  to[0] = byte(0);
  to[count / 2] = byte(count / 2);
  to[count - 1] = byte(count - 1);
}

struct Key {
  const char* data;
  std::uint32_t length;
  std::uint32_t tail_at;  // the number of bytes before the tail, a multiple of 8
  std::uint64_t tail;
  std::uint64_t hash;

  /// Returns the tail of a key of `size` bytes, 8 or more. The result is meaningless if `size` is a multiple of 8.
  static std::uint64_t tail_of(const char* bytes, std::size_t size) noexcept {
    return load_word(bytes + size - 8) >> ((64 - size % 8 * 8) & 63);
  }

  Key(std::string_view bytes, std::uint64_t seed) noexcept
      : data(bytes.data()),
        length(static_cast<std::uint32_t>(bytes.size())),
        tail_at(length & ~7U),
        tail(bytes.size() >= 8 ? tail_of(data, bytes.size()) : load_tail(data + tail_at, length & 7)),
        hash(hash_key(data, bytes.size(), seed)) {}

  /// Makes a key without a hash, which can only be compared.
  explicit Key(std::string_view bytes) noexcept
      : data(bytes.data()),
        length(static_cast<std::uint32_t>(bytes.size())),
        tail_at(length & ~7U),
        tail(load_tail(data + tail_at, length & 7)),
        hash(0) {}

  /// Returns a copy, to pass to a function that is rarely called. Copies each member, because an object that is copied
  /// as a whole does not stay in registers.
  [[gnu::always_inline]] Key copy() const noexcept { return {data, length, tail_at, tail, hash}; }

  std::string_view bytes() const noexcept { return {data, length}; }
  std::uint32_t short_hash() const noexcept { return static_cast<std::uint32_t>(hash); }

 private:
  Key(const char* its_data, std::uint32_t its_length, std::uint32_t its_tail_at, std::uint64_t its_tail,
      std::uint64_t its_hash) noexcept
      : data(its_data), length(its_length), tail_at(its_tail_at), tail(its_tail), hash(its_hash) {}
};

/// Below this size, a loop is as fast as a call. Benchmarks: "get, one string of 100 bytes" and "set, one string of 100
/// bytes".
inline constexpr std::size_t kLongCopy = 128;

inline void store_bytes(Word64* words, const char* bytes, std::size_t count) noexcept {
  if (count >= kLongCopy) {
    platform::copy_to_shared(words, bytes, count / 8);
    words += count / 8;
    bytes += count & ~std::size_t{7};
    count &= 7;
  }
  for (; count >= 8; count -= 8, bytes += 8, ++words) words->store(load_word(bytes), kRelaxed);
  if (count != 0) words->store(load_tail(bytes, count), kRelaxed);
}

/// Stores the key, and returns the address after it.
inline Word64* store_key(Word64* words, const Key& key) noexcept {
  store_bytes(words, key.data, key.tail_at);
  words += key.tail_at / 8;
  if ((key.length & 7) != 0) words++->store(key.tail, kRelaxed);
  return words;
}

inline void load_bytes(const Word64* words, char* bytes, std::size_t count) noexcept {
  if (count >= kLongCopy) {
    platform::copy_from_shared(bytes, words, count / 8);
    words += count / 8;
    bytes += count & ~std::size_t{7};
    count &= 7;
  }
  for (; count >= 8; count -= 8, bytes += 8, ++words) {
    const std::uint64_t word = words->load(kRelaxed);
    std::memcpy(bytes, &word, 8);
  }
  if (count != 0) store_tail(bytes, words->load(kRelaxed), count);
}

}  // namespace holdfast
