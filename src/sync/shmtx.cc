#include "sync/shmtx.h"

#include <pthread.h>

#include <algorithm>
#include <type_traits>

#include "base/failpoint.h"
#include "platform/platform.h"
#include "sync/record_lock.h"

namespace holdfast {

namespace shmtx_internal {

constinit thread_local CriticalSection critical_section{};
static_assert(std::is_trivially_destructible_v<decltype(critical_section)>);

}  // namespace shmtx_internal

namespace {

using platform::kNsPerMs;
using shmtx_internal::critical_section;

constexpr std::uint64_t kSpinNs = 3'000;
constexpr int kPausesPerLook = 16;
constexpr int kLongestPause = 512;
/// A waiter looks whether the owner lives after sleeps of this length, doubling.
constexpr std::uint64_t kFirstSleepNs = kNsPerMs;
constexpr std::uint64_t kLongestSleepNs = 8 * kNsPerMs;
/// The same for those who do not sleep.
constexpr std::uint64_t kProbeNs = kNsPerMs;
/// Nobody wakes the waiters of a record lock, so they look more often.
constexpr std::uint64_t kFirstPollNs = 50'000;
constexpr std::uint64_t kLongestPollNs = kNsPerMs;

/// An owner that never is: more slots than there are.
constexpr std::uint32_t kLostByFork = 0x7FFFFFFF;

std::atomic<std::uint64_t> robberies{0};

// A signal handler that forks inside a critical section: the child is another process and does not own what its parent
// holds. What it leaves later is counted as lost, and nothing is touched. The pin is not mapped in the child.
[[maybe_unused]] const int kForkHandlerInstalled = ::pthread_atfork(nullptr, nullptr, [] {
  if (critical_section.owner != 0) critical_section = {.owner = kLostByFork, .pin = nullptr};
});

constexpr std::uint32_t without_waiters(std::uint32_t word) noexcept { return word & ~kShmtxWaiters; }

void relax(int pauses) noexcept {
  for (int i = 0; i < pauses; ++i) platform::cpu_relax();
}

}  // namespace

std::uint64_t shmtx_robberies() noexcept { return robberies.load(std::memory_order_relaxed); }

LockResult Shmtx::lock_slow(std::uint64_t deadline_ns) noexcept {
  if (critical_section.owner != 0) return LockResult::busy;
  const Token token = world_->token();
  if (token == kNobody) return LockResult::failed;
  const std::uint32_t me = owner_bits(token);
  critical_section.owner = me;
  std::atomic_signal_fence(std::memory_order_seq_cst);

  if (strategy_ != MutexStrategy::file) state_->waits.fetch_add(1, std::memory_order_relaxed);
  LockResult result = LockResult::failed;
  switch (strategy_) {
    case MutexStrategy::futex:
      result = wait_on_futex(me, deadline_ns);
      break;
    case MutexStrategy::spin:
      result = wait_spinning(me, deadline_ns);
      break;
    case MutexStrategy::file:
      result = wait_for_file(me, deadline_ns);
      break;
  }
  if (result != LockResult::acquired && result != LockResult::owner_died) critical_section.owner = 0;
  return result;
}

bool Shmtx::take_free(std::uint32_t desired) noexcept {
  std::uint32_t expected = 0;
  // Acquire: pairs with the release in unlock().
  return state_->word.compare_exchange_strong(expected, desired, std::memory_order_acquire, std::memory_order_relaxed);
}

// The exact word that was judged: between the kernel's answer and this, somebody else may have taken over already.
bool Shmtx::take_from_dead(std::uint32_t seen, std::uint32_t desired) noexcept {
  if (seen == 0) return false;
  // WAITERS without an owner is no state of this protocol. Shared memory was overwritten, and repair is the answer too.
  if (without_waiters(seen) != 0 && world_->judge_owner(without_waiters(seen)) != Liveness::dead) return false;
  HOLDFAST_FAILPOINT("shmtx.judged");
  // Acquire: pairs with the dead owner's own stores, which the kernel ordered before it gave up the slot's lock.
  return state_->word.compare_exchange_strong(seen, desired, std::memory_order_acquire, std::memory_order_relaxed);
}

bool Shmtx::leave_mark(std::uint32_t seen) noexcept {
  if ((seen & kShmtxWaiters) != 0) return true;
  return state_->word.compare_exchange_strong(seen, seen | kShmtxWaiters, std::memory_order_relaxed);
}

LockResult Shmtx::given_up(std::uint32_t seen) noexcept {
  const std::uint32_t owner = without_waiters(seen);
  if (owner != 0 && world_->judge_owner(owner) == Liveness::unknown) return LockResult::failed;
  return LockResult::timeout;
}

LockResult Shmtx::wait_on_futex(std::uint32_t me, std::uint64_t deadline_ns) noexcept {
  std::atomic<std::uint32_t>& word = state_->word;
  std::uint64_t now = platform::monotonic_ns();
  // With one processor the owner cannot run while this spins.
  const std::uint64_t spin_end = platform::processor_count() > 1 ? std::min(now + kSpinNs, deadline_ns) : now;
  while (now < spin_end) {
    if (word.load(std::memory_order_relaxed) == 0 && take_free(me)) return LockResult::acquired;
    relax(kPausesPerLook);
    now = platform::monotonic_ns();
  }

  // Once this thread may have slept, others may sleep too and it cannot know: it keeps the mark when it takes the word.
  std::uint32_t mark = 0;
  std::uint64_t sleep_ns = kFirstSleepNs;
  for (;;) {
    std::uint32_t seen = word.load(std::memory_order_relaxed);
    if (seen == 0) {
      if (take_free(me | mark)) return LockResult::acquired;
      continue;
    }
    if (now >= deadline_ns) {
      if (take_from_dead(seen, me | kShmtxWaiters)) return LockResult::owner_died;
      // A wake-up may have ended here that took the mark with it: others who sleep would miss the next one.
      if (mark == 0 || leave_mark(seen)) return given_up(seen);
      continue;
    }
    if (!leave_mark(seen)) continue;
    seen |= kShmtxWaiters;
    mark = kShmtxWaiters;
    const std::uint64_t wake_at = std::min(deadline_ns, now + sleep_ns);
    HOLDFAST_FAILPOINT("shmtx.marked");
    const platform::WaitResult slept = platform::futex_wait(word, seen, wake_at);
    if (slept == platform::WaitResult::failed) platform::sleep_until(wake_at);
    now = platform::monotonic_ns();
    if (slept == platform::WaitResult::timed_out || slept == platform::WaitResult::failed) {
      // Not the word it went to sleep on: the owner may have changed since, and died.
      if (take_from_dead(word.load(std::memory_order_relaxed), me | kShmtxWaiters)) return LockResult::owner_died;
      sleep_ns = std::min(sleep_ns * 2, kLongestSleepNs);
    }
  }
}

LockResult Shmtx::wait_spinning(std::uint32_t me, std::uint64_t deadline_ns) noexcept {
  const bool alone = platform::processor_count() == 1;
  std::uint64_t probe_at = platform::monotonic_ns() + kProbeNs;
  for (;;) {
    for (int pauses = 1; !alone && pauses <= kLongestPause; pauses *= 2) {
      if (state_->word.load(std::memory_order_relaxed) == 0 && take_free(me)) return LockResult::acquired;
      relax(pauses);
    }
    if (take_free(me)) return LockResult::acquired;
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= probe_at || now >= deadline_ns) {
      if (take_from_dead(state_->word.load(std::memory_order_relaxed), me)) return LockResult::owner_died;
      probe_at = now + kProbeNs;
    }
    if (now >= deadline_ns) {
      return take_free(me) ? LockResult::acquired : given_up(state_->word.load(std::memory_order_relaxed));
    }
    platform::yield();
  }
}

LockResult Shmtx::wait_for_file(std::uint32_t me, std::uint64_t deadline_ns) noexcept {
  if (file_ == nullptr) return LockResult::failed;
  bool counted = false;
  std::uint64_t sleep_ns = kFirstPollNs;
  for (;;) {
    platform::Mapping pin;
    switch (file_->try_acquire(byte_, pin)) {
      case RecordLock::Attempt::acquired: {
        critical_section.pin = pin.release();
        HOLDFAST_FAILPOINT("shmtx.record_locked");
        // Acquire: pairs with the release in unlock_slow(), for readers of the word; the kernel orders the rest.
        const std::uint32_t last = state_->word.exchange(me, std::memory_order_acquire);
        return last == 0 ? LockResult::acquired : LockResult::owner_died;
      }
      case RecordLock::Attempt::unreachable:
        return LockResult::failed;
      case RecordLock::Attempt::held:
        if (!counted) state_->waits.fetch_add(1, std::memory_order_relaxed);
        counted = true;
        break;
    }
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= deadline_ns) return LockResult::timeout;
    platform::sleep_until(std::min(deadline_ns, now + sleep_ns));
    sleep_ns = std::min(sleep_ns * 2, kLongestPollNs);
  }
}

void Shmtx::unlock_slow() noexcept {
  const shmtx_internal::CriticalSection mine = critical_section;
  std::uint32_t seen = state_->word.load(std::memory_order_relaxed);
  // A waiter may set WAITERS between the load and the exchange; nothing else may happen to a word of ours.
  while (mine.owner != 0 && without_waiters(seen) == mine.owner) {
    // Release: pairs with the acquire of the next owner.
    if (!state_->word.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)) continue;
    HOLDFAST_FAILPOINT("shmtx.released");
    if ((seen & kShmtxWaiters) != 0) platform::futex_wake(state_->word, 1);
    seen = mine.owner;
    break;
  }
  if (mine.owner == 0 || without_waiters(seen) != mine.owner) robberies.fetch_add(1, std::memory_order_relaxed);
  // After the word, so that the next owner finds it clear.
  if (mine.pin != nullptr) platform::unpin(mine.pin);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  critical_section = {};
}

}  // namespace holdfast
