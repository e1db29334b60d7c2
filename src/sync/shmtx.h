// A shmtx is the mutex inside a segment (a dictionary's shared memory). It survives the death of its owner.
//
// The word has 64 bits, and its lower half is a futex. The word shares its cache line only with the count of waits and
// a note.
//
//   bits    | meaning                           | set by                        | cleared by
//   --------+-----------------------------------+-------------------------------+----------------------------
//   63..32  | number of the critical section,   | with the slot                 | with the slot
//           | as counted by the owner's process |                               |
//   31      | WAITERS: a thread may sleep here  | a waiter, before it sleeps    | unlock (the whole word)
//   30..20  | owner's slot + 1; 0: free         | lock (CAS from 0), takeover   | unlock
//   19..0   | owner's generation, lowest 20 bits| with the slot                 | with the slot
//
// WAITERS may be set although no thread sleeps, which only causes an unnecessary wake-up. But no thread may sleep while
// WAITERS is clear. Owner and lock are a single word, so the mutex is never locked without an owner. A waiter asks the
// kernel whether the owner is alive, and takes the mutex over from a dead owner. The compare-and-swap for this expects
// exactly the word that the waiter has checked. Every sleep is bounded, so a lost wake-up only causes a delay. The
// mutex is never taken from a live owner, even if the owner is stopped.
//
// An overwritten word may name a live process that is not inside a section. So each process counts in its slot how many
// of its threads are inside any critical section (ProcessSlot::sections). A thread is counted from before it writes the
// word until after it clears the word. If a waiter reads the word and then finds that the owner's count is 0, the
// section with the word's number is over or never existed. Numbers are not reused, so the compare-and-swap that follows
// can only replace a damaged word.
//
// With the strategies `futex` and `spin`, the word decides who owns the mutex. With `file`, a record lock (OFD) on one
// byte of the segment's file decides, and the owner writes the word only to identify itself. If the word is not 0 after
// the record lock was acquired, the last owner died.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/token.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

class RecordLock;   // sync/record_lock.h
struct SpinPolicy;  // sync/spin.h

enum class MutexStrategy : std::uint32_t { futex = 0, spin = 1, file = 2 };

/// The part of a shmtx that is in shared memory. If it is all zero, the mutex is free.
struct alignas(64) ShmtxState {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> waits;  // attempts that found the mutex held; shown to users
  /// A word that the user of the mutex reads while it holds the mutex. The word is here because the owner already has
  /// this cache line.
  std::atomic<std::uint32_t> note;
};
static_assert(sizeof(ShmtxState) == 64);

inline constexpr std::uint64_t kShmtxWaiters = std::uint64_t{1} << 31;
static_assert(kOwnerMask == kShmtxWaiters - 1);

enum class LockResult {
  acquired,
  owner_died,  // acquired, and the caller must now repair what the mutex guards
  timeout,     // a live process holds the mutex
  busy,        // a signal handler or finaliser of this thread has interrupted a critical section
  failed,  // this process has no identity in the world; or strategy `file` cannot reach the segment's file; or it is
           // unknown whether the owner is alive
};

namespace shmtx_internal {

/// The critical section that this thread is in. This object is in initial-exec TLS, so that reading it takes only a
/// load, not a call.
struct CriticalSection {
  std::uint64_t word;                    // what the thread stores in the shmtx, or tries to store; 0: not in a section
  std::atomic<std::uint64_t>* sections;  // the process's count (ProcessSlot::sections)
  RecordLock* file;                      // set if strategy `file` holds the record lock; otherwise null
  void* pin;                             // the record lock's pin; for `pin` and `descriptor`, see RecordLock::Held
  int descriptor;
  std::uint32_t blocker;  // owner bits of the word when the last attempt timed out
};
extern constinit thread_local CriticalSection critical_section __attribute__((tls_model("initial-exec")));

inline constexpr std::uint64_t kOneInside = 1;
inline constexpr std::uint64_t kOneBegun = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kInsideMask = kOneBegun - 1;

/// This function and the next one are for processes with several threads, and use atomic operations.
std::uint64_t begin_section_beside_threads(std::atomic<std::uint64_t>& sections) noexcept;
void end_section_beside_threads(std::atomic<std::uint64_t>& sections) noexcept;

/// Counts a critical section that is about to begin. Returns its number in the upper half.
inline std::uint64_t begin_section(std::atomic<std::uint64_t>& sections) noexcept {
  if (!platform::is_single_threaded()) [[unlikely]]
    return begin_section_beside_threads(sections);
  const std::uint64_t number = (sections.load(std::memory_order_relaxed) | kInsideMask) + 1;
  sections.store(number + kOneInside, std::memory_order_relaxed);
  return number;
}
/// Ends the section with this number. The release order ensures that a process that sees a count of 0 also sees that
/// the word was cleared.
inline void end_section(std::atomic<std::uint64_t>& sections, std::uint64_t number) noexcept {
  if (platform::is_single_threaded()) [[likely]]
    sections.store(number, std::memory_order_release);
  else
    end_section_beside_threads(sections);
}

}  // namespace shmtx_internal

/// A process's handle to one shmtx. It is cheap to copy and does not own the state.
class Shmtx {
 public:
  /// Makes a handle. `file` is the record lock for MutexStrategy::file, otherwise null. `byte` is the byte of the file
  /// that represents this mutex. REQUIRES: `file` outlives the Shmtx; no other mutex of the file has the same byte.
  Shmtx(ShmtxState& state, MutexStrategy strategy, World& world, RecordLock* file, std::uint32_t byte) noexcept
      : state_(&state), world_(&world), file_(file), byte_(byte), strategy_(strategy) {}

  /// Tries once to take the mutex. Takes it over if the owner is dead.
  LockResult try_lock() noexcept { return lock_fast() ? LockResult::acquired : lock_slow(0); }
  /// Tries to take the mutex until `deadline_ns` (CLOCK_MONOTONIC), but at least once.
  LockResult lock(std::uint64_t deadline_ns) noexcept {
    return lock_fast() ? LockResult::acquired : lock_slow(deadline_ns);
  }
  /// Tries for `patience_ns` from now. Reads the clock only if the mutex is held.
  LockResult lock_for(std::uint64_t patience_ns) noexcept {
    return lock_fast() ? LockResult::acquired : lock_slow(platform::monotonic_ns() + patience_ns);
  }
  /// Releases the mutex, and wakes a waiter if there may be one. REQUIRES: this thread holds the mutex.
  void unlock() noexcept {
    auto& mine = shmtx_internal::critical_section;
    std::uint64_t expected = mine.word;
    // Release: after its acquire, the next owner sees everything that was done inside the section.
    if (mine.word != 0 && strategy_ != MutexStrategy::file &&
        state_->word.compare_exchange_strong(expected, 0, std::memory_order_release, std::memory_order_relaxed)) {
      shmtx_internal::end_section(*mine.sections, mine.word & ~shmtx_internal::kInsideMask);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      mine.word = 0;
      return;
    }
    unlock_slow();
  }

 private:
  bool lock_fast() noexcept {
    auto& mine = shmtx_internal::critical_section;
    if (strategy_ == MutexStrategy::file || mine.word != 0) return false;
    const Token token = world_->token();
    if (token == kNobody) return false;
    // Record the section first, so that a signal handler that interrupts the rest finds this thread inside a section,
    // and does not wait for the mutex.
    const std::uint32_t owner = owner_bits(token);
    std::atomic<std::uint64_t>& sections = world_->sections(token);
    mine.word = owner;
    mine.sections = &sections;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (take(0, 0, owner, sections)) return true;
    mine.word = 0;
    return false;
  }
  /// Replaces exactly `seen` with this thread's word, with or without the WAITERS bit. REQUIRES: CriticalSection::word
  /// has the owner's bits.
  bool take(std::uint64_t seen, std::uint64_t waiters) noexcept {
    const auto& mine = shmtx_internal::critical_section;
    return take(seen, waiters, mine.word & kOwnerMask, *mine.sections);
  }
  /// Does the same. `owner` and `sections` have the values that CriticalSection contains.
  bool take(std::uint64_t seen, std::uint64_t waiters, std::uint64_t owner,
            std::atomic<std::uint64_t>& sections) noexcept {
    const std::uint64_t number = shmtx_internal::begin_section(sections);
    const std::uint64_t desired = number | owner;
    // The acquire order pairs with the release in unlock(), or with the dead owner's own stores, which the kernel
    // ordered before it gave up the slot's lock. The release order makes sure that a process that sees the word also
    // sees the count made before it.
    if (state_->word.compare_exchange_strong(seen, desired | waiters, std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
      shmtx_internal::critical_section.word = desired;
      return true;
    }
    shmtx_internal::end_section(sections, number);
    return false;
  }
  LockResult lock_slow(std::uint64_t deadline_ns) noexcept;
  void unlock_slow() noexcept;

  /// Sets WAITERS in the word. Returns false if the word is no longer `seen`.
  bool set_waiters_bit(std::uint64_t seen) noexcept;
  /// Tries to take the mutex for about as long as a short section takes. Returns whether it succeeded.
  bool spin(const SpinPolicy& policy) noexcept;
  LockResult wait_on_futex(std::uint64_t deadline_ns) noexcept;
  LockResult wait_spinning(std::uint64_t deadline_ns) noexcept;
  LockResult wait_for_file(std::uint64_t deadline_ns) noexcept;
  /// Returns the result for a waiter at its deadline: timeout, or failed if it is unknown whether the owner is alive.
  LockResult given_up(std::uint64_t seen) noexcept;
  bool take_from_dead(std::uint64_t seen, std::uint64_t waiters) noexcept;
  bool is_nobodys(std::uint64_t seen) noexcept;

  ShmtxState* state_;
  World* world_;
  RecordLock* file_;
  std::uint32_t byte_;
  MutexStrategy strategy_;
};

/// Returns how many threads of the process with these owner bits are inside a section. May return 1 if there is more
/// than one.
// The acquire order pairs with end_section(), and keeps later reads after this load.
inline std::uint64_t count_inside(World& world, std::uint32_t owner_bits) noexcept {
  const std::uint64_t sections =
      world.sections(make_token(slot_of_owner(owner_bits), 0)).load(std::memory_order_acquire);
  return sections & shmtx_internal::kInsideMask;
}

/// A section without a mutex, for work that must not be interrupted by other work of the same process. A signal handler
/// that needs a mutex gets `busy`, and other processes see that the process is inside a section.
class MutexlessSection {
 public:
  /// Returns whether the thread is already inside a section.
  static bool is_inside() noexcept { return shmtx_internal::critical_section.word != 0; }

  /// Begins the section. REQUIRES: !is_inside().
  MutexlessSection(World& world, Token self) noexcept {
    auto& mine = shmtx_internal::critical_section;
    std::atomic<std::uint64_t>& sections = world.sections(self);
    mine.word = owner_bits(self);
    mine.sections = &sections;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    number_ = shmtx_internal::begin_section(sections);
    // Release: pairs with the acquire in count_inside(). A process that sees a store made inside the section also sees
    // the section.
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~MutexlessSection() {
    auto& mine = shmtx_internal::critical_section;
    shmtx_internal::end_section(*mine.sections, number_);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    mine.word = 0;
  }
  MutexlessSection(const MutexlessSection&) = delete;
  MutexlessSection& operator=(const MutexlessSection&) = delete;

 private:
  std::uint64_t number_;
};

/// Returns how often a thread of this process unlocked a shmtx that it no longer owned. This number must be 0.
/// Otherwise, a live process was mistaken for a dead one, or shared memory was overwritten.
std::uint64_t shmtx_robberies() noexcept;

/// Returns the owner bits that this thread found at its last timeout, or 0 if they are unknown.
inline std::uint32_t shmtx_blocker() noexcept { return shmtx_internal::critical_section.blocker; }

}  // namespace holdfast
