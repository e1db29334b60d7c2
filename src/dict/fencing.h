// Fencing numbers of a dictionary: each is larger than all before it.
//
// Numbers come from a range that the world gave to this dictionary (world/fencing.h). A count outside its range has
// reached the end of the range or was overwritten; either way the dictionary goes on in a range that was never given.
//
// A count that was set back inside the range is found by comparing it with `given`, a second word with the number given
// last. It is written after the count. With several shards it may lag by the numbers being given at this instant, and
// it is never ahead.
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
/// Begins a new range and returns its first number, which belongs to the caller alone; the dictionary goes on behind
/// it. `last`: the count as it was found; `given`: a number that was given before.
std::uint64_t number_of_new_range(Segment& segment, std::uint64_t last, std::uint64_t given) noexcept;
/// A range that was given to this dictionary, or 0 if none is known.
std::uint64_t known_range(const DictionaryHeader& header) noexcept;

/// A number larger than all before in this dictionary. `before`: the last number of the entry, or 0; no count, however
/// damaged, gives that number again. With one shard the shard's mutex guards the count, which saves the atomic step;
/// that step costs as much as finding the lock.
inline std::uint64_t next_sequence(Segment& segment, std::uint64_t before) noexcept {
  DictionaryHeader& header = segment.header();
  // Acquire pairs with the release store below. Every number given by then was counted before, so the count is not
  // below it.
  const std::uint64_t given = header.given.load(kAcquire);
  std::uint64_t last = 0;
  if (segment.geometry().shards > 1) {
    last = header.sequence.fetch_add(1, kRelaxed);
  } else {
    last = header.sequence.load(kRelaxed);
    header.sequence.store(last + 1, kRelaxed);
  }
  const std::uint64_t range = header.range.load(kRelaxed);
  const bool in_range = last / kFencingRange == range && (last + 1) / kFencingRange == range;
  if (in_range && last >= given && last >= before) [[likely]] {
    header.given.store(last + 1, kRelease);
    return last + 1;
  }
  return number_of_new_range(segment, last, given);
}

}  // namespace holdfast
