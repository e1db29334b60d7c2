// The fencing numbers of a dictionary. No two grants have the same number, and each number is larger than all earlier
// numbers of its key.
//
// A lock takes numbers in blocks, so that its grants need not share the dictionary's count. So the numbers of two keys
// do not show which grant came first. The count is never behind a number that was given.
//
// Numbers come from a range that the world gave to this dictionary (world/fencing.h). A count outside its range has
// reached the end of the range or was overwritten; either way the dictionary continues in a range that was never given.
//
// A count that was set back inside the range is detected by comparison with `given`, a second word with the last number
// given. `given` is written after the count. With several shards it may lag by the numbers being given at this moment,
// and it is never ahead.
//
// REQUIRES, to give a number: the mutex of the shard that has the entry.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "dict/segment.h"
#include "world/fencing.h"

namespace holdfast {

/// Gives the first range to a dictionary that is being created.
void initialise_fencing(DictionaryHeader& header, const FencingRanges& ranges) noexcept;
/// Begins a new range and returns its first number, which belongs to the caller alone; the dictionary continues after
/// that number. `last` is the count as it was found, and `given` is a number that was given before.
std::uint64_t number_of_new_range(Segment& segment, std::uint64_t last, std::uint64_t given) noexcept;
/// Returns a range that was given to this dictionary, or 0 if unknown.
std::uint64_t known_range(const DictionaryHeader& header) noexcept;

/// Numbers that belong to one lock, or to one grant of permits.
struct Numbers {
  std::uint64_t first;
  std::uint64_t last;
};

/// Gives `count` numbers, or fewer, all larger than any number given before in this dictionary. `before` is the last
/// number of the entry, or 0; no count, however damaged, gives that number again. With one shard the shard's mutex
/// guards the count, which saves an atomic operation that costs as much as finding the lock.
inline Numbers next_numbers(Segment& segment, std::uint64_t before, std::uint32_t count) noexcept {
  DictionaryHeader& header = segment.header();
  // The acquire order pairs with the release store below. Every number given by then was counted before, so the count
  // is not below it.
  const std::uint64_t given = header.given.load(kAcquire);
  std::uint64_t last = 0;
  if (segment.geometry().shards > 1) {
    last = header.sequence.fetch_add(count, kRelaxed);
  } else {
    last = header.sequence.load(kRelaxed);
    header.sequence.store(last + count, kRelaxed);
  }
  const std::uint64_t range = header.range.load(kRelaxed);
  const bool in_range = last / kFencingRange == range && (last + count) / kFencingRange == range;
  if (in_range && last >= given && last >= before) [[likely]] {
    header.given.store(last + count, kRelease);
    return {last + 1, last + count};
  }
  const std::uint64_t number = number_of_new_range(segment, last, given);
  return {number, number};
}

}  // namespace holdfast
