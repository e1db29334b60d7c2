// Copies bytes and keys to words of shared memory, and bytes back, zero-padded to whole words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomic.h"
#include "dict/key.h"
#include "platform/platform.h"

namespace holdfast {

/// Below this a loop is as fast as a call: the rows "get, one string of 100 bytes" and "set, one string of 100 bytes".
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

/// Returns what comes behind the key.
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
