// Fencing numbers of a world: each is given once, whatever the dictionary, and a later one is larger.
//
// Dictionaries draw ranges of them here and give the numbers of a range by themselves (dict/fencing.h). So a new
// dictionary under an old name goes on above all numbers of the old one.
//
// The number of the last range is kept twice, each with a check in its lower bits: an overwritten word is noticed, and
// the other one tells where to go on.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// Numbers per range. Range r has the numbers from r * kFencingRange on.
inline constexpr std::uint64_t kFencingRange = 65536;
/// The first one. Not 0, which overwritten memory often is.
inline constexpr std::uint64_t kFirstFencingRange = 1;

/// A count of at most 44 bits, with a check of 20 bits below it. Zero is none.
constexpr std::uint64_t seal(std::uint64_t count) noexcept {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  return count << 20 | ((count + 1) * kOdd) >> 44;
}
constexpr std::uint64_t unseal(std::uint64_t word) noexcept { return word >> 20; }
/// Whether the check fits and the numbers stay below 2^53, where Lua tells them apart.
constexpr bool is_sealed(std::uint64_t word) noexcept {
  constexpr std::uint64_t kRanges = (std::uint64_t{1} << 53) / kFencingRange;
  return word == seal(unseal(word)) && unseal(word) < kRanges - 1;
}

/// What of it lies in the process table. Zero is not a valid content.
struct FencingMemory {
  Word64 last;
  Word64 copy;                  // not above `last`: written after it
  Word64 corruptions_repaired;  // words of this world that were found overwritten and put right; for people
};

class FencingRanges {
 public:
  explicit FencingRanges(FencingMemory& memory) noexcept : memory_(&memory) {}

  void initialise() const noexcept;
  /// A range that was never given. `above`: a range that the caller knows to have been given, or 0. Any process, any
  /// thread; no system call, no lock.
  std::uint64_t take(std::uint64_t above) const noexcept;
  /// The last one that was given.
  std::uint64_t last() const noexcept;
  /// Call this after putting right an overwritten word of this world.
  void count_corruption_repaired() const noexcept { memory_->corruptions_repaired.fetch_add(1, kRelaxed); }
  std::uint64_t corruptions_repaired() const noexcept { return memory_->corruptions_repaired.load(kRelaxed); }

 private:
  std::uint64_t last_of(std::uint64_t last, std::uint64_t copy, bool& damaged) const noexcept;
  void raise_copy(std::uint64_t count) const noexcept;

  FencingMemory* memory_;
};

}  // namespace holdfast
