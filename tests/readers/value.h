// Values that a reader can check without further knowledge. Each value is derived from its key and its version, so a
// reader can tell whether the value is correct, torn or old, or belongs to another key.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "holdfast.h"

namespace holdfast::readers {

/// The kind of a key's value, which decides how a change is made.
enum class Kind : int {
  number,             // a change stores only the value's word
  number_with_flags,  // each value has new flags, so it needs a new entry
  boolean,            // each value needs a new entry
  string,             // each value has a new length
  table,              // like `string`
  list_length,        // a list that is pushed to and popped from
  held_lock,          // a lease that is renewed
  passing_lock,       // a lock that is taken and released
  coming_string,      // a string that is stored and deleted, and that expires
};
inline constexpr int kKinds = 9;
inline constexpr std::size_t kLongest = 8192;

/// Versions are below this limit. Each writer counts its own versions. Every kind of value has room for a version below
/// the limit.
inline constexpr std::uint32_t kVersionsMax = 1U << 28;

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}
constexpr std::uint64_t mix(std::uint32_t key, std::uint32_t version) noexcept {
  return mix(std::uint64_t{key + 1} << 32 | version);
}

/// Returns a number from 1 to 2 that contains the version and a checksum of 24 bits.
constexpr double number_of(std::uint32_t key, std::uint32_t version) noexcept {
  return std::bit_cast<double>(std::uint64_t{0x3FF} << 52 | std::uint64_t{version} << 24 |
                               (mix(key, version) & 0xFFFFFF));
}
constexpr std::uint32_t version_of(double number) noexcept {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(number) >> 24) & (kVersionsMax - 1);
}

/// Returns the flags of a boolean, which contain the version and a checksum of 4 bits.
constexpr std::uint32_t boolean_flags(std::uint32_t key, std::uint32_t version) noexcept {
  return version | static_cast<std::uint32_t>(mix(key, version) >> 60) << 28;
}

/// Returns a length, which is mostly short, and at most kLongest.
constexpr std::size_t length_of(std::uint32_t key, std::uint32_t version) noexcept {
  const std::uint64_t random = mix(key, version);
  const std::uint64_t choice = random & 63;
  const std::uint64_t size = random >> 32;
  if (choice < 4) return size % 2;
  if (choice < 40) return size % 65;
  if (choice < 60) return size % 513;
  return choice < 63 ? size % 2049 : kLongest - size % 3 * (size % 4096);
}

constexpr std::uint64_t word_at(std::uint64_t base, std::size_t index) noexcept {
  return (base + index) * 0x9E3779B97F4A7C15;
}

inline void make_bytes(std::uint32_t key, std::uint32_t version, std::string& bytes) {
  bytes.resize(length_of(key, version));
  const std::uint64_t base = mix(key, version);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_at(base, at / 8);
    std::memcpy(bytes.data() + at, &word, bytes.size() - at < 8 ? bytes.size() - at : 8);
  }
}

inline bool are_bytes_of(std::uint32_t key, std::uint32_t version, const char* bytes, std::size_t size) noexcept {
  if (size != length_of(key, version)) return false;
  const std::uint64_t base = mix(key, version);
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, 8);
    if (word != word_at(base, at / 8)) return false;
  }
  const std::uint64_t last = word_at(base, size / 8);
  return std::memcmp(bytes + size / 8 * 8, &last, size % 8) == 0;
}

/// A list's length is between list_base() and list_base() + kListSpan, so lists of different keys have different
/// lengths.
inline constexpr std::uint32_t kListSpan = 4;
constexpr std::uint32_t list_base(std::uint32_t key) noexcept { return 1 + key % 8 * (kListSpan + 1); }

/// Leases of different writers and terms end at different times.
inline constexpr std::uint32_t kTerms = 4;
inline constexpr double kTermSeconds = 10'000;
constexpr double seconds_of_term(std::uint32_t writer, std::uint32_t term) noexcept {
  return kTermSeconds * (1 + writer * kTerms + term);
}

}  // namespace holdfast::readers
