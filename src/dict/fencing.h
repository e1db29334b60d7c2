// The next fencing number of a dictionary. With the mutex of the shard whose entry it is for.
//
// Numbers come from a range that the world gave to this dictionary (world/fencing.h). A count that has left its range
// is either at the range's end or was overwritten; either way the dictionary goes on in a range that nobody had.
//
// Inside the range, a count that was set back is below the number that was given last, which stands in a word of its
// own. It is written after the count, so with several shards it may be behind by the numbers that are being given in
// this instant, and is never before it.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "dict/segment.h"
#include "world/fencing.h"

namespace holdfast {

/// Gives the first range to a dictionary that is being made.
void initialise_fencing(DictionaryHeader& header, const FencingRanges& ranges) noexcept;
/// The first number of a new range, for the caller alone; the dictionary goes on behind it. `last`: its count, as
/// found; `given`: a number that was given before.
std::uint64_t number_of_new_range(Segment& segment, std::uint64_t last, std::uint64_t given) noexcept;
/// A range that was given to this dictionary, or 0.
std::uint64_t known_range(const DictionaryHeader& header) noexcept;

/// Larger than all before in this dictionary. `before`: the number that the entry has had last, or 0; no count, however
/// damaged, gives that again. With one shard its mutex guards the count, and the atomic step, which costs as much as
/// finding the lock, is saved.
inline std::uint64_t next_sequence(Segment& segment, std::uint64_t before) noexcept {
  DictionaryHeader& header = segment.header();
  // Acquire: pairs with the release below. What was given by then was counted before, so the count is not below it.
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
