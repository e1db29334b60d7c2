// The fencing tokens of a world (runtime directory). No token is given out twice, even in different dictionaries, and
// every later token is larger.
//
// Dictionaries take ranges of tokens here, and give out the tokens of a range themselves (dict/fencing.h). So a new
// dictionary continues above all tokens of an earlier dictionary with the same name.
//
// The number of the last range is stored twice, each time with a check in the word's lower bits. So an overwritten word
// is detected, and the other word says where to continue.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// The size of a range. Range r begins at r * kFencingRange.
inline constexpr std::uint64_t kFencingRange = 65536;
/// The first range. It is not 0, because overwritten memory is often 0.
inline constexpr std::uint64_t kFirstFencingRange = 1;

/// Returns a word that contains the count, which has at most 44 bits, and below it a check of 20 bits. A word of 0 does
/// not contain a count.
constexpr std::uint64_t seal(std::uint64_t count) noexcept {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  return count << 20 | ((count + 1) * kOdd) >> 44;
}
constexpr std::uint64_t unseal(std::uint64_t word) noexcept { return word >> 20; }
/// Returns whether the check matches and the tokens stay below 2^53, so that Lua can distinguish them.
constexpr bool is_sealed(std::uint64_t word) noexcept {
  constexpr std::uint64_t kRanges = (std::uint64_t{1} << 53) / kFencingRange;
  return word == seal(unseal(word)) && unseal(word) < kRanges - 1;
}

/// The fencing words in the process table. If they are all zero, they are invalid.
struct FencingMemory {
  Word64 last;
  Word64 copy;                  // never above `last`, because it is written later
  Word64 corruptions_repaired;  // overwritten words of this world that were repaired; shown to users
};

class FencingRanges {
 public:
  explicit FencingRanges(FencingMemory& memory) noexcept : memory_(&memory) {}

  void initialise() const noexcept;
  /// Returns a range that has never been given out. `above` is a range that the caller knows to have been given out, or
  /// 0. Any thread of any process may call this function. It does not make system calls or take locks.
  std::uint64_t take(std::uint64_t above) const noexcept;
  /// Returns the last range given out.
  std::uint64_t last() const noexcept;
  /// Counts a repair. Call this after repairing an overwritten word of this world.
  void count_corruption_repaired() const noexcept { memory_->corruptions_repaired.fetch_add(1, kRelaxed); }
  std::uint64_t corruptions_repaired() const noexcept { return memory_->corruptions_repaired.load(kRelaxed); }

 private:
  std::uint64_t last_of(std::uint64_t last, std::uint64_t copy, bool& damaged) const noexcept;
  void raise_copy(std::uint64_t count) const noexcept;

  FencingMemory* memory_;
};

}  // namespace holdfast
