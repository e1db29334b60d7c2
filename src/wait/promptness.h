// Measures how promptly the waiters of one event loop react to a wake-up. Also limits the time for which the loop polls
// for a release that is expected soon.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "dict/wait_queue.h"

namespace holdfast {

/// Thread safety: any thread may make any call. If two threads write at the same time, one of the two measurements may
/// get lost, which does no harm.
class Promptness {
 public:
  /// Returns the running mean of the delays. It rises faster than it falls, because a short delay may be a coincidence:
  /// a loop that polls by itself may have been woken shortly before. Returns 0 if the delay is unknown.
  std::uint64_t delay_ns() const noexcept { return delay_ns_.load(kRelaxed); }
  /// Records that a waiter responded `ns` after it was woken. If the loop slept in the meantime, counts only the time
  /// after its sleep, because a thread that waits for a processor is not busy.
  void note_delay(std::uint64_t ns, std::uint64_t now_ns) noexcept {
    const std::uint64_t mean = delay_ns();
    const std::uint64_t counted = counted_of(ns, now_ns);
    const std::uint64_t weight = counted > mean ? kWeightOfLonger : kWeightOfShorter;
    delay_ns_.store(std::max(mean - mean / weight + counted / weight, kDelayMinNs), kRelaxed);
  }
  /// Records that a waiter responded too late: it had `claim_ns` to respond, and then lost its position. It was woken
  /// at some time after the last step of a wait in this loop.
  // The first value counts in full. Otherwise, a slow loop would miss its wake-ups repeatedly until its delay is known,
  // and several slow loops together would delay the other loops for a long time.
  void note_missed(std::uint64_t claim_ns, std::uint64_t now_ns) noexcept {
    const std::uint64_t ns = std::max(claim_ns, now_ns - stepped_ns_.load(kRelaxed));
    if (delay_ns() == 0)
      delay_ns_.store(std::max(counted_of(ns, now_ns), kDelayMinNs), kRelaxed);
    else
      note_delay(ns, now_ns);
  }
  /// Records the end of a step of a wait.
  void note_step(std::uint64_t now_ns) noexcept { stepped_ns_.store(now_ns, kRelaxed); }
  /// Records that the loop slept, and was woken for a waiter.
  void note_awake(std::uint64_t now_ns) noexcept { awake_ns_.store(now_ns, kRelaxed); }

  /// Returns whether the thread may poll for a release now. After a poll, the thread pauses for kRest times as long as
  /// the poll took.
  bool may_look(std::uint64_t now_ns) const noexcept { return now_ns >= rested_ns_.load(kRelaxed); }
  void note_look(std::uint64_t now_ns, std::uint64_t took_ns) noexcept {
    rested_ns_.store(now_ns + kRest * took_ns, kRelaxed);
  }

 private:
  std::uint64_t counted_of(std::uint64_t ns, std::uint64_t now_ns) const noexcept {
    return std::min({ns, now_ns - awake_ns_.load(kRelaxed), kDelayMaxNs});
  }

  // No benchmark covers these three constants, because none has a loop with other work. handoff_test.cc tests the
  // limits of all three.
  static constexpr std::uint64_t kWeightOfLonger = 4;
  static constexpr std::uint64_t kWeightOfShorter = 32;
  static constexpr std::uint64_t kRest = 16;

  std::atomic<std::uint64_t> delay_ns_{0};
  std::atomic<std::uint64_t> awake_ns_{0};
  std::atomic<std::uint64_t> stepped_ns_{0};
  std::atomic<std::uint64_t> rested_ns_{0};
};

}  // namespace holdfast
