// Records how much of a shard's memory is reserved, which means allocated from the file system.
//
// The file of a dictionary of several shards begins as a hole: only the part before the shards is reserved when the
// file is made. The first change of a key in a shard opens the shard: this reserves the beginning of the shard's arena
// and everything before the arena. The arena then grows in steps until it is complete. Memory is reserved before it is
// touched, so a full file system makes the call that needed memory fail, and never causes a SIGBUS.
//
//   step                                            | a process killed after it leaves
//   ------------------------------------------------+------------------------------------------------------------------
//   1. reserve: an operation found no room and has  | memory that no mark covers: the next process that needs it
//      released the mutex                           | finds it there
//   2. with the mutex: the mark                     | the mutex of a dead owner: a repair adds all memory up to the
//   mark
//   3. the new part becomes a free block            | nothing else
//
// The kernel is asked for memory without the mutex, because this takes about a microsecond for each page. The operation
// releases the mutex, reserves, and runs again. A process whose request is refused does not ask again for 100 ms. In
// the meantime it treats the arena as complete: values are evicted, and safe_set returns `no memory`. If a process may
// no longer write to the file, because its user or group has changed, mincore() reports all pages as present. Such a
// process has to ask the kernel for each page.
//
// The mark is only a hint: a process touches only memory that it has found to exist (platform::reserve_pages). A mark
// that was overwritten is repaired if it is invalid, or smaller than a mark that this process knows. Reserved memory
// stays reserved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dict/layout.h"

namespace holdfast {

/// The mark contains the number of reserved units of the arena and, in its upper bits, check bits that most other words
/// do not match. A unit is a page of 4 KB. Only a dictionary for large values can have an arena of more than 64 MB.
/// There, a unit is the smallest power of two with which the mark can express the whole arena.
struct ReservedMark {
  static constexpr std::uint32_t kGranulesPerPage = 4096 / kGranule;
  static constexpr std::uint32_t kUnitBits = 14;

  /// Returns the size of a unit, in granules, for an arena of `all` granules.
  static constexpr std::uint32_t unit(std::uint32_t all) noexcept {
    std::uint32_t granules = kGranulesPerPage;
    while (all / granules >= (1U << kUnitBits) - 1) granules *= 2;
    return granules;
  }
  static constexpr std::uint32_t of_units(std::uint32_t units) noexcept {
    return units | (units * 0x9E3779B1U >> kUnitBits << kUnitBits);
  }
  /// Returns the mark of an arena of `all` granules whose first `granules` are reserved.
  static constexpr std::uint32_t of(std::uint32_t granules, std::uint32_t all) noexcept {
    return of_units((granules + unit(all) - 1) / unit(all));
  }
  /// Returns the number of reserved granules according to a mark, in an arena of `all` granules, or 0 if the mark is
  /// not valid.
  static constexpr std::uint32_t granules_of(std::uint32_t word, std::uint32_t all) noexcept {
    const std::uint32_t units = word & ((1U << kUnitBits) - 1);
    return word == of_units(units) ? static_cast<std::uint32_t>(std::min(std::uint64_t{units} * unit(all), {all})) : 0;
  }
};

/// The part of an arena that is reserved at first, and the maximum by which the arena grows in one step. A step is
/// larger if a unit is larger or an operation needs more. Each step up to this limit doubles the arena. So a dictionary
/// of few keys stays small, and a step takes a fraction of a millisecond. The benchmark of both constants is "Opening a
/// new dictionary".
inline constexpr std::uint32_t kFirstGranules = 4 * ReservedMark::kGranulesPerPage;
inline constexpr std::uint32_t kGranulesPerStep = 32 * ReservedMark::kGranulesPerPage;

constexpr std::uint32_t first_reserved(std::uint32_t all) noexcept {
  return std::min(std::max(kFirstGranules, ReservedMark::unit(all)), all);
}

/// Returns how many granules of an arena of `all` granules to reserve for a run of `count` more granules, if `reserved`
/// granules are already reserved.
constexpr std::uint32_t next_reserved(std::uint32_t reserved, std::uint32_t count, std::uint32_t all) noexcept {
  const std::uint64_t unit = ReservedMark::unit(all);
  const std::uint64_t target = std::uint64_t{reserved} + std::max(std::min(reserved, kGranulesPerStep), count);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((target + unit - 1) / unit * unit, all));
}

}  // namespace holdfast
