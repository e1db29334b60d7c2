// How much of a shard's memory is reserved, that is, taken from the file system.
//
// The file of a dictionary of several shards begins as a hole: only what lies before the shards is reserved when it is
// made. A shard is opened, by the first change of a key in it: all that lies before its arena is reserved, and the
// beginning of the arena. The arena then grows by steps, until it is whole. Memory is reserved before it is touched, so
// a full file system is an error of the call that needed memory, and never a SIGBUS.
//
//   step                                            | a process killed behind it leaves
//   ------------------------------------------------+------------------------------------------------------------------
//   1. reserve: an operation found no room and has  | memory that no mark tells of: the next process that needs it
//      given the mutex back                         | finds it there
//   2. with the mutex: the mark                     | a mutex of a dead owner: a repair adds all up to the mark
//   3. the new part becomes a free block            | nothing else
//
// The mark is a hint that is checked: a process touches only what it has found to be there (platform::reserve_pages).
// A mark that was overwritten by no mark, or by a smaller one than this process knows, is put right: what was reserved
// stays so.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dict/layout.h"

namespace holdfast {

/// The mark: units of 4 KB of the arena, below a check, by which most words that are no mark can be told from one.
struct ReservedMark {
  static constexpr std::uint32_t kGranulesPerUnit = 4096 / kGranule;
  static constexpr std::uint32_t kUnitBits = 14;

  static constexpr std::uint32_t units_for(std::uint32_t granules) noexcept {
    return (granules + kGranulesPerUnit - 1) / kGranulesPerUnit;
  }
  static constexpr std::uint32_t of_units(std::uint32_t units) noexcept {
    return units | (units * 0x9E3779B1U >> kUnitBits << kUnitBits);
  }
  /// The mark of an arena of which the first `granules` are reserved.
  static constexpr std::uint32_t of(std::uint32_t granules) noexcept { return of_units(units_for(granules)); }
  /// The granules that a mark tells of, of an arena of `all`; 0 if it is no mark.
  static constexpr std::uint32_t granules_of(std::uint32_t word, std::uint32_t all) noexcept {
    const std::uint32_t units = word & ((1U << kUnitBits) - 1);
    return word == of_units(units) ? std::min(units * kGranulesPerUnit, all) : 0;
  }
};

/// What is reserved of an arena at first, and by how much at the most it grows in one step, unless more is needed. A
/// step doubles it: a dictionary of few keys stays small, and one step takes a fraction of a millisecond.
inline constexpr std::uint32_t kFirstUnits = 4;
inline constexpr std::uint32_t kUnitsPerStep = 32;

/// How far to reserve an arena of `all` granules, of which `reserved` are, for a run of `count` more.
constexpr std::uint32_t next_reserved(std::uint32_t reserved, std::uint32_t count, std::uint32_t all) noexcept {
  constexpr std::uint32_t kMost = kUnitsPerStep * ReservedMark::kGranulesPerUnit;
  const std::uint64_t wanted = std::uint64_t{reserved} + std::max(std::min(reserved, kMost), count);
  const std::uint64_t units = (wanted + ReservedMark::kGranulesPerUnit - 1) / ReservedMark::kGranulesPerUnit;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(units * ReservedMark::kGranulesPerUnit, all));
}

}  // namespace holdfast
