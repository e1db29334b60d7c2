#include "sync/shmtx.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "base/failpoint.h"
#include "platform/platform.h"
#include "sync/record_lock.h"
#include "sync/spin.h"

namespace holdfast {

namespace shmtx_internal {

constinit thread_local CriticalSection critical_section{};
static_assert(std::is_trivially_destructible_v<decltype(critical_section)>);

std::uint64_t begin_section_beside_threads(std::atomic<std::uint64_t>& sections) noexcept {
  return (sections.fetch_add(kOneBegun + kOneInside, std::memory_order_relaxed) + kOneBegun) & ~kInsideMask;
}

void end_section_beside_threads(std::atomic<std::uint64_t>& sections) noexcept {
  sections.fetch_sub(kOneInside, std::memory_order_release);
}

}  // namespace shmtx_internal

namespace {

using shmtx_internal::critical_section;

/// A waiter sleeps for this time before it first checks whether the owner is alive. Each later sleep is twice as long.
/// The benchmark is contended_mutex/futex.
constexpr std::uint64_t kFirstSleepNs = kNsPerMs;
constexpr std::uint64_t kLongestSleepNs = 8 * kNsPerMs;
/// The interval at which a spinning waiter checks whether the owner is alive. The benchmark is contended_mutex/spin.
constexpr std::uint64_t kProbeNs = kNsPerMs;
/// The first sleep of a waiter for a record lock. Nobody wakes such a waiter, so it tries more often. No benchmark
/// covers this constant, because contended_mutex has no strategy `file`.
constexpr std::uint64_t kFirstPollNs = 50'000;
constexpr std::uint64_t kLongestPollNs = kNsPerMs;

/// Owner bits that no process has, because their slot number is too large.
constexpr std::uint64_t kLostByFork = kOwnerMask;
std::atomic<std::uint64_t> sections_of_nobody{0};

std::atomic<std::uint64_t> robberies{0};

// Handles the case that a signal handler forks inside a critical section. The child is another process, and does not
// own the mutex that its parent holds. When the child leaves the section, unlock_slow() only counts a loss of
// ownership.
[[maybe_unused]] const int kForkHandlerInstalled = ::pthread_atfork(nullptr, nullptr, [] {
  if (critical_section.word == 0) return;
  if (critical_section.file != nullptr) critical_section.file->leave_to_parent(critical_section.descriptor);
  critical_section = {};
  critical_section.word = kLostByFork;
  critical_section.sections = &sections_of_nobody;
});

constexpr std::uint64_t without_waiters(std::uint64_t word) noexcept { return word & ~kShmtxWaiters; }
constexpr std::uint32_t owner_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word & kOwnerMask); }
/// Returns the half of the word that is a futex. Only the kernel reads this half alone.
std::atomic<std::uint32_t>& futex_of(std::atomic<std::uint64_t>& word) noexcept {
  return reinterpret_cast<std::atomic<std::uint32_t>&>(word);
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

std::uint64_t shmtx_robberies() noexcept { return robberies.load(std::memory_order_relaxed); }

LockResult Shmtx::lock_slow(std::uint64_t deadline_ns) noexcept {
  if (critical_section.word != 0) return LockResult::busy;
  const Token token = world_->token();
  if (token == kNobody) return LockResult::failed;
  critical_section.word = owner_bits(token);
  critical_section.sections = &world_->sections(token);
  critical_section.blocker = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);

  const bool soon = deadline_ns != 0 && strategy_ == MutexStrategy::futex && spin(kSpinForMutex);
  // Count the wait after the spin, because if the spin has acquired the mutex, the word's cache line is already here.
  if (strategy_ != MutexStrategy::file) state_->waits.fetch_add(1, std::memory_order_relaxed);
  if (soon) return LockResult::acquired;
  LockResult result = LockResult::failed;
  switch (strategy_) {
    case MutexStrategy::futex:
      result = wait_on_futex(deadline_ns);
      break;
    case MutexStrategy::spin:
      result = wait_spinning(deadline_ns);
      break;
    case MutexStrategy::file:
      result = wait_for_file(deadline_ns);
      break;
  }
  if (result == LockResult::timeout) critical_section.blocker = owner_of(state_->word.load(std::memory_order_relaxed));
  if (result != LockResult::acquired && result != LockResult::owner_died) critical_section.word = 0;
  return result;
}

// Returns whether `seen`, a word that was read before, names a process that is not in the section with the word's
// number.
bool Shmtx::is_nobodys(std::uint64_t seen) noexcept {
  // Acquire: read the count after the word, so that this thread sees the count that the owner made before it stored the
  // word (take()).
  std::atomic_thread_fence(std::memory_order_acquire);
  // An owner gives its word back before its section ends. So if the count is 0 and the word is still `seen`, the word
  // was overwritten.
  return count_inside(*world_, owner_of(seen)) == 0;
}

// Takes over only the exact word that was checked, because another process may have taken over since then.
bool Shmtx::take_from_dead(std::uint64_t seen, std::uint64_t waiters) noexcept {
  if (seen == 0) return false;
  // A word without an owner is impossible in this protocol, so shared memory was overwritten. Repair also handles this
  // case.
  const std::uint32_t owner = owner_of(seen);
  if (owner != 0 && world_->judge_owner(owner) != Liveness::dead && !is_nobodys(seen)) return false;
  HOLDFAST_FAILPOINT("shmtx.judged");
  return take(seen, waiters);
}

bool Shmtx::set_waiters_bit(std::uint64_t seen) noexcept {
  if ((seen & kShmtxWaiters) != 0) return true;
  return state_->word.compare_exchange_strong(seen, seen | kShmtxWaiters, std::memory_order_relaxed);
}

LockResult Shmtx::given_up(std::uint64_t seen) noexcept {
  const std::uint32_t owner = owner_of(seen);
  if (owner != 0 && world_->judge_owner(owner) == Liveness::unknown) return LockResult::failed;
  return LockResult::timeout;
}

bool Shmtx::spin(const SpinPolicy& policy) noexcept {
  for (Spin spin(policy); spin.pause();)
    if (state_->word.load(std::memory_order_relaxed) == 0 && take(0, 0)) return true;
  return false;
}

LockResult Shmtx::wait_on_futex(std::uint64_t deadline_ns) noexcept {
  std::atomic<std::uint64_t>& word = state_->word;
  std::uint64_t now = platform::monotonic_ns();
  // Set the WAITERS bit when taking the word after a sleep, because other threads may still sleep.
  std::uint64_t waiters = 0;
  std::uint64_t sleep_ns = kFirstSleepNs;
  for (;;) {
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    if (seen == 0) {
      if (take(0, waiters)) return LockResult::acquired;
      continue;
    }
    if (now >= deadline_ns) {
      if (take_from_dead(seen, kShmtxWaiters)) return LockResult::owner_died;
      // The wake-up that this thread received may have cleared the bit. Without the bit, other sleepers would miss the
      // next wake-up.
      if (waiters == 0 || set_waiters_bit(seen)) return given_up(seen);
      continue;
    }
    if (!set_waiters_bit(seen)) continue;
    seen |= kShmtxWaiters;
    waiters = kShmtxWaiters;
    const std::uint64_t wake_at = std::min(deadline_ns, now + sleep_ns);
    HOLDFAST_FAILPOINT("shmtx.waiters_bit");
    const platform::WaitResult slept = platform::futex_wait(futex_of(word), static_cast<std::uint32_t>(seen), wake_at);
    if (slept == platform::WaitResult::failed) platform::sleep_until(wake_at);
    now = platform::monotonic_ns();
    if (slept == platform::WaitResult::timed_out || slept == platform::WaitResult::failed) {
      // Check the current word, not the word from before the sleep, because a new owner may have got the mutex and died
      // in the meantime.
      if (take_from_dead(word.load(std::memory_order_relaxed), kShmtxWaiters)) return LockResult::owner_died;
      sleep_ns = std::min(sleep_ns * 2, kLongestSleepNs);
    }
  }
}

LockResult Shmtx::wait_spinning(std::uint64_t deadline_ns) noexcept {
  std::uint64_t probe_at = platform::monotonic_ns() + kProbeNs;
  for (;;) {
    if (take(0, 0) || spin(kSpinBeforeYield)) return LockResult::acquired;
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= probe_at || now >= deadline_ns) {
      if (take_from_dead(state_->word.load(std::memory_order_relaxed), 0)) return LockResult::owner_died;
      probe_at = now + kProbeNs;
    }
    if (now >= deadline_ns) {
      return take(0, 0) ? LockResult::acquired : given_up(state_->word.load(std::memory_order_relaxed));
    }
    platform::yield();
  }
}

LockResult Shmtx::wait_for_file(std::uint64_t deadline_ns) noexcept {
  if (file_ == nullptr) return LockResult::failed;
  bool counted = false;
  std::uint64_t sleep_ns = kFirstPollNs;
  for (;;) {
    RecordLock::Held held;
    switch (file_->try_acquire(byte_, held)) {
      case RecordLock::Attempt::acquired: {
        critical_section.file = file_;
        critical_section.pin = held.pin;
        critical_section.descriptor = held.descriptor;
        HOLDFAST_FAILPOINT("shmtx.record_locked");
        // Acquire: pairs with the release in unlock_slow(), for readers of the word; the kernel orders everything else.
        critical_section.word |= shmtx_internal::begin_section(*critical_section.sections);
        const std::uint64_t last = state_->word.exchange(critical_section.word, std::memory_order_acq_rel);
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
  std::uint64_t seen = state_->word.load(std::memory_order_relaxed);
  // A waiter may set WAITERS between the load and the exchange, but nothing else may change a word that this thread
  // owns.
  while (mine.word != 0 && without_waiters(seen) == mine.word) {
    // Release: pairs with the acquire of the next owner.
    if (!state_->word.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)) continue;
    HOLDFAST_FAILPOINT("shmtx.released");
    if ((seen & kShmtxWaiters) != 0) platform::futex_wake(futex_of(state_->word), 1);
    seen = mine.word;
    break;
  }
  if (mine.word == 0 || without_waiters(seen) != mine.word) robberies.fetch_add(1, std::memory_order_relaxed);
  // Unlock after clearing the word, so that the next owner finds the word clear.
  if (mine.file != nullptr) mine.file->release({mine.pin, mine.descriptor}, byte_);
  if (mine.word != 0) shmtx_internal::end_section(*mine.sections, mine.word & ~shmtx_internal::kInsideMask);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  critical_section = {};
}

}  // namespace holdfast
