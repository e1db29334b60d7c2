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
// The kernel is asked without the mutex, as it takes about a microsecond for each page: the operation gives the mutex
// back, reserves, and is run again. A process that is refused does not ask again for 100 ms. In the meantime the arena
// counts as complete: values are evicted, and safe_set says `no memory`. A process that may not write to the file any
// more, because its user or group has changed, asks for each page, as mincore() then says that all of them are there.
//
// The mark is a hint that is checked: a process touches only what it has found to be there (platform::reserve_pages).
// A mark that was overwritten by no mark, or by a smaller one than this process knows, is put right: what was reserved
// stays so.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dict/layout.h"

namespace holdfast {

/// The mark: a number of units of the arena, below a check that most other words fail. A unit is a page of 4 KB. In an
/// arena of more than 64 MB, which a dictionary for large values may have, a unit is the least power of two that the
/// mark can count the arena in.
struct ReservedMark {
  static constexpr std::uint32_t kGranulesPerPage = 4096 / kGranule;
  static constexpr std::uint32_t kUnitBits = 14;

  /// The granules of a unit of an arena of `all`.
  static constexpr std::uint32_t unit(std::uint32_t all) noexcept {
    std::uint32_t granules = kGranulesPerPage;
    while (all / granules >= (1U << kUnitBits) - 1) granules *= 2;
    return granules;
  }
  static constexpr std::uint32_t of_units(std::uint32_t units) noexcept {
    return units | (units * 0x9E3779B1U >> kUnitBits << kUnitBits);
  }
  /// The mark of an arena of `all` granules of which the first `granules` are reserved.
  static constexpr std::uint32_t of(std::uint32_t granules, std::uint32_t all) noexcept {
    return of_units((granules + unit(all) - 1) / unit(all));
  }
  /// The granules that a mark tells of, of an arena of `all`; 0 if it is no mark.
  static constexpr std::uint32_t granules_of(std::uint32_t word, std::uint32_t all) noexcept {
    const std::uint32_t units = word & ((1U << kUnitBits) - 1);
    return word == of_units(units) ? static_cast<std::uint32_t>(std::min(std::uint64_t{units} * unit(all), {all})) : 0;
  }
};

/// What is reserved of an arena at first, and by how much at the most it grows in one step, unless a unit is more, or
/// more is needed. A step doubles it: a dictionary of few keys stays small, and one step takes a fraction of a
/// millisecond. Rows of both: Opening a new dictionary.
inline constexpr std::uint32_t kFirstGranules = 4 * ReservedMark::kGranulesPerPage;
inline constexpr std::uint32_t kGranulesPerStep = 32 * ReservedMark::kGranulesPerPage;

constexpr std::uint32_t first_reserved(std::uint32_t all) noexcept {
  return std::min(std::max(kFirstGranules, ReservedMark::unit(all)), all);
}

/// How far to reserve an arena of `all` granules, of which `reserved` are, for a run of `count` more.
constexpr std::uint32_t next_reserved(std::uint32_t reserved, std::uint32_t count, std::uint32_t all) noexcept {
  const std::uint64_t unit = ReservedMark::unit(all);
  const std::uint64_t target = std::uint64_t{reserved} + std::max(std::min(reserved, kGranulesPerStep), count);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((target + unit - 1) / unit * unit, all));
}

}  // namespace holdfast
