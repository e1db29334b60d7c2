// Chooses how long to sleep between two attempts at a polled lock. The times are random, and grow with each attempt. So
// hundreds of processes that start together do not retry at the same time, and leave a processor to the lock's holder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "platform/platform.h"

namespace holdfast {

class Backoff {
 public:
  /// Returns the next sleep: a random time between half of the current limit and this limit.
  std::uint64_t next_ns() noexcept {
    const std::uint64_t half = span_ns_ / 2;
    span_ns_ = std::min(2 * span_ns_, kLongestNs);
    return half + platform::random_number() % half;
  }

 private:
  // No benchmark covers these two constants, because none measures processes that open dictionaries or enter at the
  // same time.
  static constexpr std::uint64_t kFirstNs = kNsPerMs;
  static constexpr std::uint64_t kLongestNs = 128 * kNsPerMs;

  std::uint64_t span_ns_ = kFirstNs;
};

}  // namespace holdfast
