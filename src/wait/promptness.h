// How long the waiters of one loop take to come when they are woken, and how much of its time the loop may spend on
// looking for a release that is near (lock/handoff.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "dict/wait_queue.h"

namespace holdfast {

/// Thread safety: all calls, from any thread. What is lost when two note something at once does not matter.
class Promptness {
 public:
  /// A running mean, which follows longer delays faster than shorter ones: a loop that looks by itself may have been
  /// woken shortly before, by chance.
  std::uint64_t delay_ns() const noexcept { return delay_ns_.load(kRelaxed); }
  /// A waiter has come, `ns` after it was woken. Where the loop slept for it, only what came after its sleep counts:
  /// that a thread has to wait for a processor does not make it a busy one.
  void note_delay(std::uint64_t ns, std::uint64_t now_ns) noexcept {
    const std::uint64_t mean = delay_ns();
    const std::uint64_t counted = std::min({ns, now_ns - awake_ns_.load(kRelaxed), kDelayMaxNs});
    const std::uint64_t weight = counted > mean ? kWeightOfLonger : kWeightOfShorter;
    delay_ns_.store(mean - mean / weight + counted / weight, kRelaxed);
  }
  /// The loop slept, and was woken for a waiter.
  void note_awake(std::uint64_t now_ns) noexcept { awake_ns_.store(now_ns, kRelaxed); }

  /// Whether the thread may look for a release now.
  bool may_look(std::uint64_t now_ns) const noexcept { return now_ns >= rested_ns_.load(kRelaxed); }
  void note_look(std::uint64_t now_ns, std::uint64_t took_ns) noexcept {
    rested_ns_.store(now_ns + kRest * took_ns, kRelaxed);
  }

 private:
  static constexpr std::uint64_t kWeightOfLonger = 4;
  static constexpr std::uint64_t kWeightOfShorter = 32;
  static constexpr std::uint64_t kRest = 16;

  std::atomic<std::uint64_t> delay_ns_{0};
  std::atomic<std::uint64_t> awake_ns_{0};
  std::atomic<std::uint64_t> rested_ns_{0};
};

}  // namespace holdfast
