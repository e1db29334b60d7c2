#include <pthread.h>

#include <atomic>
#include <type_traits>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

/// Set while a fork runs or waits for earlier guards to end, so that no new guard begins.
constexpr std::uint32_t kForking = 1U << 31;
/// Every sleep is bounded, so each wake-up is only a hint.
constexpr std::uint64_t kLongestSleepNs = 50 * kNsPerMs;
/// The polling interval if the kernel refuses futexes. No benchmark covers it.
constexpr std::uint64_t kPollNs = kNsPerMs / 4;
constexpr int kEverybody = 0x7FFFFFFF;

// kForking, plus the number of threads that hold a guard.
constinit std::atomic<std::uint32_t> gate{0};
// The generation of this process: its parent's generation + 1.
constinit std::atomic<std::uint32_t> generation{1};

struct Guards {
  int count;     // guards that this thread holds
  bool counted;  // whether `gate` counts this thread
};
constinit thread_local Guards guards_of_this_thread{};
static_assert(std::is_trivially_destructible_v<decltype(guards_of_this_thread)>);

void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  const std::uint64_t now = monotonic_ns();
  if (futex_wait(word, seen, now + kLongestSleepNs) == WaitResult::failed) sleep_until(now + kPollNs);
}

/// Waits until no fork runs, then changes the gate.
template <class Change>
void change_open_gate(Change&& change) noexcept {
  for (;;) {
    std::uint32_t seen = gate.load(std::memory_order_relaxed);
    if ((seen & kForking) != 0) {
      wait_for_change(gate, seen);
      // Acquire: pairs with the release in after_fork_in_parent() and leave_gate().
    } else if (gate.compare_exchange_weak(seen, change(seen), std::memory_order_acquire, std::memory_order_relaxed)) {
      return;
    }
  }
}

void enter_gate() noexcept {
  change_open_gate([](std::uint32_t seen) { return seen + 1; });
}

void leave_gate() noexcept {
  std::uint32_t seen = gate.load(std::memory_order_relaxed);
  // If a signal handler forked while the thread was entering, then in the child, the thread may not be counted.
  while ((seen & ~kForking) != 0) {
    // Release: pairs with the acquire in before_fork(). The next fork sees the guarded work.
    if (!gate.compare_exchange_weak(seen, seen - 1, std::memory_order_release, std::memory_order_relaxed)) continue;
    if (seen == (kForking | 1)) futex_wake(gate, kEverybody);
    return;
  }
}

// Closes the gate and waits for the guards of other threads. Does not wait if a signal handler forks inside a guard of
// its own thread: that guard would never end, and guards of other threads may wait for something that this thread
// holds.
void before_fork() noexcept {
  if (guards_of_this_thread.count != 0) return;
  change_open_gate([](std::uint32_t seen) { return seen | kForking; });
  for (;;) {
    // Acquire: pairs with the release in leave_gate().
    const std::uint32_t seen = gate.load(std::memory_order_acquire);
    if (seen == kForking) return;
    wait_for_change(gate, seen);
  }
}

void after_fork_in_parent() noexcept {
  if (guards_of_this_thread.count != 0) return;
  // Release: pairs with the acquire in change_open_gate().
  gate.store(0, std::memory_order_release);
  futex_wake(gate, kEverybody);
}

// Resets the gate in the child, which has only one thread.
void after_fork_in_child() noexcept {
  gate.store(guards_of_this_thread.counted ? 1 : 0, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] const bool kForkGateInstalled = (install_fork_gate(), true);

constexpr std::uint32_t kSleepers = 1;

}  // namespace

void install_fork_gate() noexcept {
  [[maybe_unused]] static const int installed =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void ForkGuard::hold() noexcept {
  Guards& mine = guards_of_this_thread;
  // The order of these steps matters if a signal handler forks in between.
  if (mine.count++ != 0) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  enter_gate();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  mine.counted = true;
}

void ForkGuard::let_go() noexcept {
  Guards& mine = guards_of_this_thread;
  if (mine.count == 1) {
    leave_gate();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    mine.counted = false;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  --mine.count;
}

std::uint32_t LongMutex::lock() noexcept {
  std::uint32_t sleepers = 0;
  for (;;) {
    const std::uint32_t mine = generation.load(std::memory_order_relaxed) << 1;
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if ((seen & ~kSleepers) != mine) {  // free, or locked by a parent
      // Acquire: pairs with the release in unlock().
      if (word_.compare_exchange_weak(seen, mine | sleepers, std::memory_order_acquire, std::memory_order_relaxed)) {
        return mine;
      }
      continue;
    }
    // A thread that has slept cannot know whether others still sleep, so it keeps the bit when it gets the mutex.
    sleepers = kSleepers;
    if (seen == mine && !word_.compare_exchange_weak(seen, mine | sleepers, std::memory_order_relaxed)) continue;
    wait_for_change(word_, mine | sleepers);
  }
}

void LongMutex::unlock(std::uint32_t word) noexcept {
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  // In a child that was forked in the meantime, the mutex may have been locked again.
  while ((seen & ~kSleepers) == word) {
    // Release: pairs with the acquire in lock().
    if (!word_.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)) continue;
    if ((seen & kSleepers) != 0) futex_wake(word_, 1);
    return;
  }
}

}  // namespace holdfast::platform
