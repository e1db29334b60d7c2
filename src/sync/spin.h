// Spinning: how long to spin for something that is about to become free, and how often to poll it.
//
// All spins of the library share this policy, and all of its constants are here, each with the benchmarks of
// docs/benchmarks.md that judge it. A poll takes the cache line from the processor that works in it. So a spin polls
// rarely, then more rarely, and ends when a sleep would have been cheaper.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "platform/platform.h"

namespace holdfast {

/// In processor pauses (platform::cpu_relax); one takes 10 to 50 ns.
struct SpinPolicy {
  int first;    // before the first poll; doubles from one poll to the next
  int longest;  // between two polls
  int budget;   // of a whole spin
};

/// For a mutex of strategy `futex`, before it sleeps. Benchmarks: contended_mutex/futex.
inline constexpr SpinPolicy kSpinForMutex{1, 32, 192};
/// For a mutex of strategy `spin`, before it yields the processor. Benchmark: contended_mutex/spin.
inline constexpr SpinPolicy kSpinBeforeYield{1, 512, 1023};
/// For a lock, by a waiter that holds up no other task: about as long as it takes to sleep and be woken. `first` and
/// `longest` bound a SpinInterval. Benchmarks: contended_lock; Short critical sections.
inline constexpr SpinPolicy kSpinForLock{96, 256, 2400};
/// The same for a waiter whose host has other tasks: two polls, for sections about as short as a system call. No
/// benchmark has such sections beside tasks. Benchmarks of `budget`, after which any waiter assumes a long section:
/// contended_lock.
inline constexpr SpinPolicy kSpinBesideTasks{24, 24, 48};

/// For a grant that its owner is about to complete, within some ten instructions. Only a stopped owner takes longer: no
/// benchmark covers it.
inline constexpr SpinPolicy kSpinForCompletion{1, 1, 1000};

/// One spin. REQUIRES: the caller has already polled once.
class Spin {
 public:
  explicit Spin(const SpinPolicy& policy) noexcept
      : longest_(policy.longest), interval_(policy.first), left_(is_useless() ? 0 : policy.budget) {}

  /// Pauses before the next poll. Returns false at once if the spin is over.
  bool pause() noexcept {
    if (left_ <= 0) return false;
    pause_for(interval_);
    left_ -= interval_;
    interval_ = std::min(interval_ * 2, longest_);
    return true;
  }

  /// On one processor, nobody can release anything while this process spins.
  static bool is_useless() noexcept { return platform::processor_count() == 1; }
  static void pause_for(int pauses) noexcept {
    for (int i = 0; i < pauses; ++i) platform::cpu_relax();
  }

 private:
  int longest_;
  int interval_;
  int left_;
};

/// How long to pause between two polls of a lock, in pauses. If many sections pass between two polls, there is no need
/// to catch the end of one: a lock that is free half of the time is soon found free, and until then its owner works
/// undisturbed. Learns from all locks of the process. Only a hint. Any thread may call it at any time.
class SpinInterval {
 public:
  static constexpr int kLeast = kSpinForLock.first;
  static constexpr int kMost = kSpinForLock.longest;

  int pauses() const noexcept { return pauses_.load(kRelaxed); }
  /// Records that `sections` sections began during the last interval, which lasted `pauses`.
  void note(std::uint32_t sections, int pauses) noexcept {
    const bool are_short = std::uint64_t{sections} * kShortSection >= static_cast<std::uint32_t>(pauses);
    pauses_.store(std::clamp(are_short ? pauses * 2 : pauses / 2, kLeast, kMost), kRelaxed);
  }

 private:
  // In pauses, including the time until the next section. Benchmarks: Short critical sections.
  static constexpr int kShortSection = 8;

  std::atomic<int> pauses_{kLeast};
};

/// Decides by recent success whether spinning for locks pays off in this process. All its words are hints.
class SpinCredit {
 public:
  bool may_spin() noexcept {
    if (Spin::is_useless()) return false;
    if (credit_.load(kRelaxed) > 0) return true;
    const std::uint32_t skipped = skipped_.load(kRelaxed) + 1;
    skipped_.store(skipped, kRelaxed);
    return skipped % kSkips == 0;
  }
  void note(bool success) noexcept {
    const int credit = credit_.load(kRelaxed) + (success ? kPerSuccess : -1);
    credit_.store(std::clamp(credit, 0, kMost), kRelaxed);
  }

 private:
  // Benchmarks: contended_lock, for sections of 10 µs and above.
  static constexpr int kMost = 32;
  static constexpr int kPerSuccess = 8;  // spinning pays off if one in nine succeeds
  static constexpr std::uint32_t kSkips = 64;

  std::atomic<int> credit_{kPerSuccess};
  std::atomic<std::uint32_t> skipped_{0};
};

}  // namespace holdfast
