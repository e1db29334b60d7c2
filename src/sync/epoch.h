// Epoch-based reclamation inside one process: frees the memory of a removed dictionary when no call of this process can
// still be inside it. Until then the memory stays what it was, so a late call sees a consistent dictionary, shared with
// the other processes that are inside.
//
//   EpochGuard   an operation holds one from before it loads a pointer until it no longer uses what the pointer leads
//                to
//   retire()     takes an object to which no pointer can be loaded any more
//
// With one thread (libc knows) guards do nothing, and retire() frees at once. So when an operation loads a pointer, its
// thread must not use an object that it found before: an operation loads the pointer once and hands the object to what
// it calls; a shared_ptr keeps an object for longer. No thread begins inside an operation and
// retires something before the operation ends: calls start no thread of the host, and of the library's own threads only
// the one of lock/late_release.h retires, which is started outside of any operation.
//
// With several threads each thread has a record with one word: the epoch in which its outermost guard began, or 0.
// retire() gives the object the number of the present epoch and begins the next epoch. An object of epoch e is freed
// when the word of every thread is 0 or greater than e, after a barrier in all threads (membarrier).
//
// Why nobody uses a freed object:
//
//  1. A guard stores its word, then loads the pointer. The processor may swap the two, but not over the barrier. If the
//     store comes before the barrier, the scan behind the barrier sees it. If the store comes after the barrier, so
//     does the load, which no longer finds the object.
//  2. A word above e was loaded from the count of epochs after retire() had raised it (acquire, pairs with that
//     release), and the pointer was replaced before. So that thread does not find the object either.
//  3. A guard that ends stores 0 with release, after all that it did with the object.
//
// Why nothing stays: a guard that ends stores 0, then compares the epoch with its own. If the epoch has changed, an
// object may have waited for this guard, and the guard frees what it can. Either the scan of another thread sees the 0,
// or, by the same barrier, the guard sees the new epoch. So an object goes with the last guard that began before
// retire(). What a thread still holds when it ends, in whatever way, does not count.
//
// Without membarrier (before Linux 4.14, or in a sandbox), or without memory for the record of a thread, objects stay
// while the process has several threads. Once the kernel passes the barrier, the next removal frees them.
//
// Guards never wait, so handlers of the exit and of signals may hold them. Do not hold one over a long sleep: it keeps
// the objects of all others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "platform/platform.h"

namespace holdfast {

/// The base of what is retired.
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
  std::atomic<std::uint64_t> inside;  // the epoch in which its outermost guard began; 0: it has none
  std::atomic<std::uint64_t> thread;  // platform::this_thread(); 0: nobody's
};

extern constinit thread_local Record* record __attribute__((tls_model("initial-exec")));
extern constinit std::atomic<std::uint64_t> now;

/// Finds a record for this thread.
void find_record() noexcept;
/// Frees what can be freed.
void collect() noexcept;

}  // namespace epoch_internal

/// For a process with several threads. The shortest operations have two copies, one of them with this guard: a guard
/// that may be there or not costs them more.
class ThreadsGuard {
 public:
  ThreadsGuard() noexcept {
    using namespace epoch_internal;
    if (record == nullptr) [[unlikely]]
      find_record();
    record_ = record;
    if (record_->inside.load(std::memory_order_relaxed) != 0) return;
    // Acquire: pairs with the release in retire().
    epoch_ = now.load(std::memory_order_acquire);
    record_->inside.store(epoch_, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler's half of the barrier
  }
  ~ThreadsGuard() {
    if (epoch_ == 0) return;
    // Release: pairs with the acquire of the scan.
    record_->inside.store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (epoch_internal::now.load(std::memory_order_relaxed) != epoch_) [[unlikely]]
      epoch_internal::collect();
  }
  ThreadsGuard(const ThreadsGuard&) = delete;
  ThreadsGuard& operator=(const ThreadsGuard&) = delete;

 private:
  epoch_internal::Record* record_;
  std::uint64_t epoch_ = 0;  // 0: there is another guard around this one
};

class EpochGuard {
 public:
  EpochGuard() noexcept {
    if (!platform::is_single_threaded()) [[unlikely]]
      guard_.emplace();
  }

 private:
  std::optional<ThreadsGuard> guard_;
};

/// Drops that reference once no guard of now is left. REQUIRES: this thread has a guard; all pointers that other
/// threads could load have been replaced.
void retire(std::shared_ptr<Retirable> what) noexcept;

}  // namespace holdfast
