// Whose turn it is: fairness of what has a queue.
//
// Waiters stay in the queue, by their arrival, until they take what they wait for or leave. A release wakes the first
// of them, once, and leaves the thing to whoever is faster, as a wake-up takes longer than many a critical section:
// without that, each section would cost one. But the first of the queue is passed by at most kPassesMax who came later,
// and by nobody any more once it has been the first for kPassNs: then the thing is granted to it, to be claimed within
// kClaimNs. So whoever finds k others waiting gets his turn after these k and at most kPassesMax * (k + 1) others;
// where the thing is held for longer than kPassNs, after these k and one other. A fair requester passes nobody, and a
// fair waiter is passed by nobody once it is the first: where all are fair, the order is strict.
#pragma once

#include <cstdint>

#include "dict/wait_queue.h"

namespace holdfast {

// Few, but enough that with sections of a microsecond the wake-ups do not cost more than the sections.
inline constexpr std::uint32_t kPassesMax = 64;
// The time for some sections of ten microseconds: a few wake-ups.
inline constexpr std::uint64_t kPassNs = 500'000;

/// Whether one who came later than `first` may have what is free. `passes`: how often the first of this queue was
/// passed as yet; the entry counts it.
inline bool may_pass(const Head& first, std::uint32_t passes, bool fair) noexcept {
  return !fair && !first.waiter.fair && passes - first.passes < kPassesMax && first.first_ns <= kPassNs;
}

}  // namespace holdfast
