// Decides how long to spin for something that is about to become free, and how often to poll it.
//
// All spins in the library share this policy, and all its constants are here, each with the benchmarks (in bench/) that
// measure it. A poll takes the cache line away from the processor that is working on it. So a spin polls rarely, then
// even less often, and ends once it has taken longer than a sleep would have.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "platform/platform.h"

namespace holdfast {

/// The limits of one spin. The unit is a processor pause (platform::cpu_relax), which takes 10 to 50 ns.
struct SpinPolicy {
  int first;    // the number of pauses before the first poll; it doubles from one poll to the next
  int longest;  // the maximum number of pauses between two polls
  int budget;   // the number of pauses in a whole spin
};

/// The spin of a thread that wants a mutex of strategy `futex`, before the thread sleeps. The benchmark is
/// contended_mutex/futex.
inline constexpr SpinPolicy kSpinForMutex{1, 32, 192};
/// The spin of a thread that wants a mutex of strategy `spin`, before the thread yields the processor. The benchmark is
/// contended_mutex/spin.
inline constexpr SpinPolicy kSpinBeforeYield{1, 512, 1023};
/// The spin of a waiter that wants a lock, when spinning delays no other task. It lasts about as long as a sleep and a
/// wake-up would take. `first` and `longest` bound a SpinInterval. Benchmarks: "contended_lock", "Short critical
/// sections".
inline constexpr SpinPolicy kSpinForLock{96, 256, 2400};
/// The spin of a waiter that wants a lock while its host has other tasks. It makes two polls, which suits critical
/// sections that are about as short as a system call. No benchmark has such sections in a host with other tasks. After
/// `budget`, any waiter assumes a long section; the benchmark of `budget` is contended_lock.
inline constexpr SpinPolicy kSpinBesideTasks{24, 24, 48};

/// The spin of a process that waits until the owner of a new grant has written all its fields. The owner needs about
/// ten instructions for this. It needs longer only if it is stopped, which no benchmark covers.
inline constexpr SpinPolicy kSpinForCompletion{1, 1, 1000};

/// One spin. REQUIRES: the caller has already polled once.
class Spin {
 public:
  explicit Spin(const SpinPolicy& policy) noexcept
      : longest_(policy.longest), interval_(policy.first), left_(is_useless() ? 0 : policy.budget) {}

  /// Pauses before the next poll. If the spin is over, returns false without a pause.
  bool pause() noexcept {
    if (left_ <= 0) return false;
    pause_for(interval_);
    left_ -= interval_;
    interval_ = std::min(interval_ * 2, longest_);
    return true;
  }

  /// Returns whether there is only one processor, so that no other process can release anything while this process
  /// spins.
  static bool is_useless() noexcept { return platform::processor_count() == 1; }
  static void pause_for(int pauses) noexcept {
    for (int i = 0; i < pauses; ++i) platform::cpu_relax();
  }

 private:
  int longest_;
  int interval_;
  int left_;
};

/// Computes how many pauses to wait between two polls of a lock. If many sections pass between two polls, a poll need
/// not catch the end of a particular section: a lock that is free half of the time is soon found free, and until then,
/// its owner works undisturbed. All locks of the process share one interval, which is only a hint. Any thread may make
/// any call at any time.
class SpinInterval {
 public:
  static constexpr int kLeast = kSpinForLock.first;
  static constexpr int kMost = kSpinForLock.longest;

  int pauses() const noexcept { return pauses_.load(kRelaxed); }
  /// Records that `sections` sections began during the last interval, which lasted `pauses` pauses.
  void note(std::uint32_t sections, int pauses) noexcept {
    const bool are_short = std::uint64_t{sections} * kShortSection >= static_cast<std::uint32_t>(pauses);
    pauses_.store(std::clamp(are_short ? pauses * 2 : pauses / 2, kLeast, kMost), kRelaxed);
  }

 private:
  // The maximum length of a short section, in pauses, including the time until the next section. The benchmark is
  // "Short critical sections".
  static constexpr int kShortSection = 8;

  std::atomic<int> pauses_{kLeast};
};

/// Decides from recent successes whether spinning for locks pays off in this process. All its words are hints.
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
  // The benchmark is contended_lock, for sections of 10 µs and more.
  static constexpr int kMost = 32;
  static constexpr int kPerSuccess = 8;  // spinning pays off if one spin in nine succeeds
  static constexpr std::uint32_t kSkips = 64;

  std::atomic<int> credit_{kPerSuccess};
  std::atomic<std::uint32_t> skipped_{0};
};

}  // namespace holdfast
