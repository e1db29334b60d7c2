// How long a process that spins for a lock waits between two looks at it. Each look takes the lock's lines away from
// its owner. Where many sections are over between two looks, no end needs to be watched for: a lock that is free for
// half of the time is soon met free, and until then its owner works undisturbed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"

namespace holdfast {

/// Learns from what is seen, for all locks of the process: a hint. Any thread, any time.
class LookInterval {
 public:
  static constexpr int kLeast = 4;
  static constexpr int kMost = 256;

  /// In pauses of the processor (platform::cpu_relax).
  int pauses() const noexcept { return pauses_.load(kRelaxed); }
  /// `sections`: as many were begun during the last interval, which was of `pauses`.
  void note(std::uint32_t sections, int pauses) noexcept {
    const bool are_short = std::uint64_t{sections} * kShortSection >= static_cast<std::uint32_t>(pauses);
    pauses_.store(std::clamp(are_short ? pauses * 2 : pauses / 2, kLeast, kMost), kRelaxed);
  }

 private:
  static constexpr int kShortSection = 8;  // in pauses, with the time until the next one

  std::atomic<int> pauses_{kLeast};
};

}  // namespace holdfast
