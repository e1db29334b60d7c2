// Busy waits: how long to spin for what is about to come free, and how often to poll it.
//
// All spins of the library share this policy, and all of its constants stand here, each beside the rows of
// docs/benchmarks.md that judge it. A poll takes the cache line away from the processor that works in it. So a spin
// polls seldom, then more seldom, and ends when a sleep would have been cheaper.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "platform/platform.h"

namespace holdfast {

/// In pauses of the processor (platform::cpu_relax), of which one takes 10 to 50 ns.
struct SpinPolicy {
  int first;    // before the first poll; doubles from one poll to the next
  int longest;  // between two polls
  int budget;   // of a whole spin
};

/// For a mutex of the strategy `futex`, before it sleeps. Rows: contended_mutex/futex.
inline constexpr SpinPolicy kSpinForMutex{1, 32, 192};
/// For a mutex of the strategy `spin`, before it yields the processor. Row: contended_mutex/spin.
inline constexpr SpinPolicy kSpinBeforeYield{1, 512, 1023};
/// For a lock, by a waiter that stops no other task: for about as long as it takes to be put to sleep and woken.
/// `first` and `longest` bound a SpinInterval. Rows: contended_lock; Short critical sections.
inline constexpr SpinPolicy kSpinForLock{96, 256, 2400};
/// The same for a waiter whose host has other tasks: two polls, for sections that are about as short as a question to
/// the kernel. No row has such sections beside tasks. Rows of `budget`, after which any waiter takes a section for a
/// long one: contended_lock.
inline constexpr SpinPolicy kSpinBesideTasks{24, 24, 48};

/// For a grant that its owner is about to complete, by some ten instructions. Only a stopped owner takes longer: no row
/// shows it.
inline constexpr SpinPolicy kSpinForCompletion{1, 1, 1000};

/// One spin. REQUIRES: the caller has polled once before.
class Spin {
 public:
  explicit Spin(const SpinPolicy& policy) noexcept
      : longest_(policy.longest), interval_(policy.first), left_(is_useless() ? 0 : policy.budget) {}

  /// Pauses before the next poll; false, at once: the spin is over.
  bool pause() noexcept {
    if (left_ <= 0) return false;
    pause_for(interval_);
    left_ -= interval_;
    interval_ = std::min(interval_ * 2, longest_);
    return true;
  }

  /// With one processor, nobody can release anything while this process spins.
  static bool is_useless() noexcept { return platform::processor_count() == 1; }
  static void pause_for(int pauses) noexcept {
    for (int i = 0; i < pauses; ++i) platform::cpu_relax();
  }

 private:
  int longest_;
  int interval_;
  int left_;
};

/// How long to pause between two polls of a lock, in pauses. Where many sections are over between two polls, no end
/// needs to be watched for: a lock that is free for half of the time is soon met free, and until then its owner works
/// undisturbed. Learns from what is seen, for all locks of the process: a hint. Any thread, any time.
class SpinInterval {
 public:
  static constexpr int kLeast = kSpinForLock.first;
  static constexpr int kMost = kSpinForLock.longest;

  int pauses() const noexcept { return pauses_.load(kRelaxed); }
  /// `sections`: as many were begun during the last interval, which was of `pauses`.
  void note(std::uint32_t sections, int pauses) noexcept {
    const bool are_short = std::uint64_t{sections} * kShortSection >= static_cast<std::uint32_t>(pauses);
    pauses_.store(std::clamp(are_short ? pauses * 2 : pauses / 2, kLeast, kMost), kRelaxed);
  }

 private:
  // In pauses, with the time until the next section. Rows: Short critical sections.
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
  // Rows: contended_lock, for sections of 10 µs and above.
  static constexpr int kMost = 32;
  static constexpr int kPerSuccess = 8;  // spinning pays off if one in nine succeeds
  static constexpr std::uint32_t kSkips = 64;

  std::atomic<int> credit_{kPerSuccess};
  std::atomic<std::uint32_t> skipped_{0};
};

}  // namespace holdfast
