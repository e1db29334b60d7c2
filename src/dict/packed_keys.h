// A list of keys in the memory of a caller of the C interface. Each key is a uint32_t length followed by the bytes.
// Adding a key does not allocate memory, so keys can be added while a mutex is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "dict/key.h"

namespace holdfast {

class PackedKeys {
 public:
  PackedKeys(char* room, std::size_t capacity) noexcept : room_(room), capacity_(capacity) {}

  /// Returns the total size, in bytes, of all added keys, including keys that did not fit.
  std::size_t size() const noexcept { return size_; }
  std::uint32_t count() const noexcept { return count_; }
  bool fit() const noexcept { return size_ <= capacity_; }

  void add(const Word64* key, std::uint32_t length) noexcept {
    if (char* const to = begin(length)) copy(key, to, length);
  }
  void add(std::string_view key) noexcept {
    if (char* const to = begin(static_cast<std::uint32_t>(key.size()))) std::memcpy(to, key.data(), key.size());
  }

  struct Mark {
    std::size_t size;
    std::uint32_t count;
  };
  Mark mark() const noexcept { return {size_, count_}; }
  /// Removes the keys that were added after the mark.
  void back_to(Mark mark) noexcept {
    size_ = mark.size;
    count_ = mark.count;
  }

 private:
  /// Returns the address at which to put the bytes of the next key, or null if the key does not fit.
  char* begin(std::uint32_t length) noexcept {
    const std::size_t at = size_;
    size_ += sizeof length + length;
    ++count_;
    if (!fit()) return nullptr;
    char* const to = room_ + at;
    std::memcpy(to, &length, sizeof length);
    return to + sizeof length;
  }

  // Copies whole words if there is room. The bytes after this key are free to use, because the next key overwrites
  // them.
  void copy(const Word64* key, char* to, std::uint32_t length) const noexcept {
    if (length >= kLongCopy || capacity_ - size_ < 8) return load_bytes(key, to, length);
    for (std::uint32_t at = 0; at < length; at += 8, ++key) {
      const std::uint64_t word = key->load(kRelaxed);
      std::memcpy(to + at, &word, 8);
    }
  }

  char* room_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace holdfast
