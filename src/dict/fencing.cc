#include "dict/fencing.h"

#include <algorithm>

#include "world/world.h"

namespace holdfast {

void initialise_fencing(DictionaryHeader& header, const FencingRanges& ranges) noexcept {
  const std::uint64_t range = ranges.take(0);
  header.sequence.store(range * kFencingRange, kRelaxed);
  header.range.store(range, kRelaxed);
  header.range_copy.store(seal(range), kRelaxed);
}

std::uint64_t known_range(const DictionaryHeader& header) noexcept {
  if (const std::uint64_t copy = header.range_copy.load(kRelaxed); is_sealed(copy)) return unseal(copy);
  const std::uint64_t range = header.range.load(kRelaxed);
  return header.sequence.load(kRelaxed) / kFencingRange == range ? range : 0;
}

// Begins a new range by the store into `range`. Several shards may run this function at the same time. Each call takes
// its own range and returns the first token of the range, which no other call can return. The count never decreases,
// because it only moves to a higher range.
std::uint64_t number_of_new_range(Segment& segment, std::uint64_t last, std::uint64_t given) noexcept {
  DictionaryHeader& header = segment.header();
  const FencingRanges ranges = segment.world().fencing();
  const std::uint64_t old = header.range.load(kRelaxed);
  // A count may be at the end of its range, or in a range that another process began. Any other count was overwritten,
  // or left by a process that was killed in this function. If other shards begin ranges at the same time, `old` may
  // belong to a later range than the count. In that case, accept any range that a dictionary can have had.
  const std::uint64_t of = last / kFencingRange;
  const bool possible =
      segment.geometry().shards == 1 ? of == old || of == old + 1 : of <= std::max(old, ranges.last()) + 1;
  if (last < given || !possible) ranges.count_corruption_repaired();
  const std::uint64_t range = ranges.take(known_range(header));
  header.range.store(range, kRelaxed);
  header.range_copy.store(seal(range), kRelaxed);
  std::uint64_t count = header.sequence.load(kRelaxed);
  for (;;) {
    const std::uint64_t counts = count / kFencingRange;
    const bool further = counts >= range && counts <= std::max(range, ranges.last());
    if (further || header.sequence.compare_exchange_weak(count, range * kFencingRange, kRelaxed)) break;
  }
  header.given.store(range * kFencingRange, kRelease);  // release, as in next_numbers()
  return range * kFencingRange;
}

}  // namespace holdfast
