// shmtx: the mutex inside a segment, robust against the death of its owner.
//
// The word (32 bits, on a cache line that nothing else is on but the count of waits):
//
//   bits    | meaning                           | set by                        | cleared by
//   --------+-----------------------------------+-------------------------------+----------------------------
//   31      | WAITERS: somebody may sleep here  | a waiter, before it sleeps    | unlock (the whole word)
//   30..20  | owner's slot + 1; 0: free         | lock (CAS from 0), takeover   | unlock
//   19..0   | owner's generation, lowest 20 bits| with the slot                 | with the slot
//
// Legal to have WAITERS set with nobody asleep (one wake too many); illegal to sleep without it. Owner and lock are one
// word, so there is no instant at which it is locked by nobody. A waiter asks the kernel whether the owner lives and
// takes over by an exact compare-and-swap. Every sleep is bounded, so every wake is only a hint. A live owner that is
// stopped is never robbed.
//
// Strategies: `futex` and `spin` own by that word; `file` owns by a record lock (OFD) on one byte of the segment's file
// and writes the word only to leave its name: after getting the record lock, a word that is not 0 tells that the last
// owner died.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/token.h"
#include "world/world.h"

namespace holdfast {

class RecordLock;  // sync/record_lock.h

enum class MutexStrategy : std::uint32_t { futex = 0, spin = 1, file = 2 };

/// What of a shmtx lies in shared memory. All zero is a free one.
struct alignas(64) ShmtxState {
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint64_t> waits;  // times that somebody found it held; for people
};
static_assert(sizeof(ShmtxState) == 64);

inline constexpr std::uint32_t kShmtxWaiters = 1U << 31;

/// The 31 owner bits of a token.
constexpr std::uint32_t owner_bits(Token token) noexcept {
  return (slot_of(token) + 1) << 20 | static_cast<std::uint32_t>(token & 0xFFFFF);
}

enum class LockResult {
  acquired,
  owner_died,  // acquired too, and the caller must now repair what the mutex guards
  timeout,     // of try_lock: somebody alive has it
  busy,        // this thread is inside a critical section already (a signal handler, a finaliser)
  failed,      // no identity in the world; the file strategy cannot reach the segment's file; it cannot be told
               // whether the owner lives
};

namespace shmtx_internal {

/// What this thread holds. Initial-exec: reading it must cost a load, not a call.
struct CriticalSection {
  std::uint32_t owner;  // the word it put into the shmtx; 0: outside
  void* pin;            // strategy `file`: the mapping that holds the record lock
};
extern constinit thread_local CriticalSection critical_section __attribute__((tls_model("initial-exec")));

}  // namespace shmtx_internal

/// A process's view of one shmtx. Cheap to copy; does not own the state.
class Shmtx {
 public:
  /// `file`: for MutexStrategy::file, how to reach the segment's file; else null. Outlives the Shmtx.
  /// `byte`: the file's byte that stands for this mutex; two mutexes of one file have two.
  Shmtx(ShmtxState& state, MutexStrategy strategy, World& world, RecordLock* file, std::uint64_t byte) noexcept
      : state_(&state), world_(&world), file_(file), byte_(byte), strategy_(strategy) {}

  /// One attempt; takes over from a dead owner.
  LockResult try_lock() noexcept { return lock_fast() ? LockResult::acquired : lock_slow(0); }
  /// Until acquired or `deadline` (CLOCK_MONOTONIC, ns). At least one attempt.
  LockResult lock(std::uint64_t deadline_ns) noexcept {
    return lock_fast() ? LockResult::acquired : lock_slow(deadline_ns);
  }
  /// The same for a time from now; the clock is read only when somebody else has it.
  LockResult lock_for(std::uint64_t patience_ns) noexcept {
    return lock_fast() ? LockResult::acquired : lock_slow(platform::monotonic_ns() + patience_ns);
  }
  /// REQUIRES: this thread holds it. Wakes one waiter if there may be one.
  void unlock() noexcept {
    auto& mine = shmtx_internal::critical_section;
    std::uint32_t expected = mine.owner;
    // Release: the next owner's acquire sees all that was done inside.
    if (strategy_ != MutexStrategy::file &&
        state_->word.compare_exchange_strong(expected, 0, std::memory_order_release, std::memory_order_relaxed)) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      mine.owner = 0;
      return;
    }
    unlock_slow();
  }

 private:
  bool lock_fast() noexcept {
    auto& mine = shmtx_internal::critical_section;
    if (strategy_ == MutexStrategy::file || mine.owner != 0) return false;
    const Token token = world_->token();
    if (token == kNobody) return false;
    // Before the word, so that a signal handler that comes in between finds this thread inside and does not wait for
    // it.
    mine.owner = owner_bits(token);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::uint32_t expected = 0;
    // Acquire: pairs with the release in unlock().
    if (state_->word.compare_exchange_strong(expected, mine.owner, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return true;
    }
    mine.owner = 0;
    return false;
  }
  LockResult lock_slow(std::uint64_t deadline_ns) noexcept;
  void unlock_slow() noexcept;

  /// Sets WAITERS in the word, which is `seen`; false if it is no longer.
  /// What a waiter is told whose patience is over.
  LockResult given_up(std::uint32_t seen) noexcept;
  bool leave_mark(std::uint32_t seen) noexcept;
  LockResult wait_on_futex(std::uint32_t me, std::uint64_t deadline_ns) noexcept;
  LockResult wait_spinning(std::uint32_t me, std::uint64_t deadline_ns) noexcept;
  LockResult wait_for_file(std::uint32_t me, std::uint64_t deadline_ns) noexcept;
  bool take_free(std::uint32_t desired) noexcept;
  bool take_from_dead(std::uint32_t seen, std::uint32_t desired) noexcept;

  ShmtxState* state_;
  World* world_;
  RecordLock* file_;
  std::uint64_t byte_;
  MutexStrategy strategy_;
};

/// How often a thread of this process unlocked a shmtx that was no longer its own. Must stay 0: anything else means
/// that a living process was taken for dead, or that shared memory was overwritten.
std::uint64_t shmtx_robberies() noexcept;

}  // namespace holdfast
