// How long to sleep between two attempts at a lock that is polled. The times are random and grow: hundreds of processes
// that come together do not meet again at each attempt, nor take the processors from the one that has the lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "platform/platform.h"

namespace holdfast {

class Backoff {
 public:
  /// At least half as long as the longest that it may be.
  std::uint64_t next_ns() noexcept {
    const std::uint64_t half = span_ns_ / 2;
    span_ns_ = std::min(2 * span_ns_, kLongestNs);
    return half + platform::random_number() % half;
  }

 private:
  // No row shows these two: none times processes that open or enter at once.
  static constexpr std::uint64_t kFirstNs = kNsPerMs;
  static constexpr std::uint64_t kLongestNs = 128 * kNsPerMs;

  std::uint64_t span_ns_ = kFirstNs;
};

}  // namespace holdfast
