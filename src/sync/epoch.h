// Epoch-based reclamation, inside one process, frees the memory of a removed dictionary once no call in this process
// can still use it. Until then, the memory stays valid and shared, so that a late call sees the same consistent
// dictionary as the other processes that still use it.
//
//   EpochGuard   an operation holds a guard from before it loads a pointer until it no longer uses the object
//   retire()     takes an object whose pointer can no longer be loaded
//
// Each thread has a record with two words: the number of its guards (`depth`), and an epoch in which it had no guard
// (`seen`). retire() marks the object with the number of the current epoch, and begins the next epoch. After a barrier
// in all threads (membarrier), an object of epoch e is freed if each thread either has no guard or has a `seen` above
// e.
//
// Nobody uses a freed object, for these reasons:
//
//  1. A thread first counts its guard, then loads the pointer. The processor may reorder these two steps, but not
//     across the barrier. If the count comes before the barrier, the scan after the barrier sees it. If the count comes
//     after the barrier, the load also comes after the barrier, and no longer finds the object.
//  2. `seen` is above e only if the thread had no guard at some moment after retire() had begun the next epoch. The
//     thread itself sets `seen` when its outermost guard has ended. Its load of the epoch (acquire) pairs with the
//     release in retire(), and the pointer was replaced before this release. A scan sets `seen` for a thread without a
//     guard, which point 1 allows.
//  3. A guard that ends stores the count with release, after all its uses of the object.
//
// Every retired object is freed. A guard that ends stores the count, then compares the epoch with `seen`. If they
// differ, an object may have been waiting for this guard, so the guard frees all objects that can be freed. Either the
// scan of another thread sees the count, or, by the same barrier, the guard sees the new epoch. So an object is freed
// at the latest when all guards that began before the scan by retire() have ended. The guards of a thread that has
// exited do not count, however the thread exited.
//
// Without membarrier (before Linux 4.14, or in a sandbox), or without memory for a thread's record, objects are kept
// while the process has several threads. Once the kernel supports the barrier again, the next removal frees these
// objects.
//
// Guards never wait, so exit handlers may hold them. A guard may free memory when it ends, so a signal handler must not
// hold one. Do not hold a guard during a long sleep, because no retired object is freed during this time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "platform/platform.h"

namespace holdfast {

/// Base class of objects that can be retired.
class Retirable {
 public:
  Retirable() = default;
  virtual ~Retirable() = default;
  Retirable(const Retirable&) = delete;
  Retirable& operator=(const Retirable&) = delete;

 private:
  friend struct EpochReclamation;  // epoch.cc
  std::shared_ptr<Retirable> self_;
  Retirable* next_ = nullptr;
  std::uint64_t epoch_ = 0;
};

namespace epoch_internal {

struct alignas(64) Record {
  std::atomic<std::uint64_t> depth;   // guards that the thread holds
  std::atomic<std::uint64_t> seen;    // an epoch in which the thread held no guard
  std::atomic<std::uint64_t> thread;  // the value of platform::this_thread(); 0: the record is free
};

extern constinit thread_local Record* record __attribute__((tls_model("initial-exec")));
[[gnu::visibility("hidden")]] extern constinit std::atomic<std::uint64_t> now;

/// Finds a record for this thread.
Record* find_record() noexcept;
/// Frees the objects that can be freed. Called when a guard has ended in a newer epoch than `seen`.
void note_epoch(Record& mine) noexcept;

}  // namespace epoch_internal

class EpochGuard {
 public:
  [[gnu::always_inline]] EpochGuard() noexcept : record_(*mine()) {
    platform::add_own(record_.depth, 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler's half of the barrier
  }
  [[gnu::always_inline]] ~EpochGuard() {
    epoch_internal::Record& mine = record_;
    const std::uint64_t seen = mine.seen.load(std::memory_order_relaxed);
    // Release: pairs with the acquire of the scan.
    platform::add_own(mine.depth, -1, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (epoch_internal::now.load(std::memory_order_relaxed) != seen) [[unlikely]]
      epoch_internal::note_epoch(mine);
  }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 private:
  [[gnu::always_inline]] static epoch_internal::Record* mine() noexcept {
    epoch_internal::Record* const found = epoch_internal::record;
    return found != nullptr ? found : epoch_internal::find_record();
  }

  epoch_internal::Record& record_;
};

/// Drops the reference once all guards that exist now have ended. REQUIRES: this thread has a guard, and all pointers
/// from which other threads could load the object have been replaced.
void retire(std::shared_ptr<Retirable> what) noexcept;

}  // namespace holdfast
