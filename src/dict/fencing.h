// The fencing tokens of a dictionary. No two grants have the same token, and each token is larger than all earlier
// tokens of its key.
//
// A lock takes tokens in blocks, so that its grants need not change the dictionary's count. As a result, the tokens
// of two different keys do not show which grant was made first. The count is never less than a token that was given
// out.
//
// Tokens come from a range that the world gave to this dictionary (world/fencing.h). A count outside its range has
// reached the end of the range, or was overwritten. In both cases, the dictionary continues in a range that was never
// given out.
//
// A count that was set back within its range is detected by comparison with `given`, a second word with the last token
// given out. `given` is written after the count. If there are several shards, `given` may lag by the tokens that are
// being given out at this moment. It is never ahead of the count.
//
// REQUIRES, to give out a token: the mutex of the entry's shard is held.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "dict/segment.h"
#include "world/fencing.h"

namespace holdfast {

/// Gives the first range to a dictionary that is being created.
void initialise_fencing(DictionaryHeader& header, const FencingRanges& ranges) noexcept;
/// Begins a new range, and returns its first token, which only this caller gets. The dictionary continues after that
/// token. `last` is the count as it was found, and `given` is a token that was given out before.
std::uint64_t number_of_new_range(Segment& segment, std::uint64_t last, std::uint64_t given) noexcept;
/// Returns a range that was given to this dictionary, or 0 if none is known.
std::uint64_t known_range(const DictionaryHeader& header) noexcept;

/// Tokens that belong to one lock, or to one grant of permits.
struct Numbers {
  std::uint64_t first;
  std::uint64_t last;
};

/// Gives out `count` tokens, or fewer, which are larger than any token given out before in this dictionary. `before` is
/// the last token of the entry, or 0; even if the count is damaged, this token is not given out again. If there is only
/// one shard, the shard's mutex guards the count, which saves an atomic operation that takes as long as finding the
/// lock.
inline Numbers next_numbers(Segment& segment, std::uint64_t before, std::uint32_t count) noexcept {
  DictionaryHeader& header = segment.header();
  // The acquire order pairs with the release store below. Every token that was given out by then was counted before,
  // so the count is not less than that token.
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
