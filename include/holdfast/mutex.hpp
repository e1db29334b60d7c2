// Mutexes: locks with the interface of the standard library's mutexes.
#ifndef HOLDFAST_MUTEX_HPP
#define HOLDFAST_MUTEX_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "dictionary.hpp"

namespace holdfast {
inline namespace v1 {

namespace detail {

/// Describes the calling thread to the search for deadlocks (holdfast_task_ids). Each copy of this code, for example in
/// a plugin that hides its symbols, has its own state, and does not know what threads hold through another copy.
struct thread_state {
  std::uint32_t task;  // 0: none yet
  std::uint32_t held;  // number of mutexes that the thread has locked but not unlocked
};
inline constinit thread_local thread_state this_thread{};

inline std::uint32_t task_of_this_thread() noexcept {
  static constinit std::atomic<std::uint32_t> last{0};
  constexpr std::uint32_t range = std::uint32_t{1} << 20;
  if (this_thread.task != 0) return this_thread.task;
  std::uint32_t seen = last.load(std::memory_order_relaxed);
  std::uint32_t next = 0;
  do {
    const bool is_used_up = (seen + 1) % range == 0 || seen == 0;
    const std::uint32_t base = is_used_up ? holdfast_task_ids() : seen;
    if (base == 0) return 0;  // there are no more ids
    next = base + 1;
  } while (!last.compare_exchange_weak(seen, next, std::memory_order_relaxed));
  return this_thread.task = next;
}

/// The leases of one mutex object. Each thread that holds the mutex or waits for it has a slot, which no other thread
/// writes. So a thread that has lost the lock cannot release a lock that another thread of the process has acquired
/// since then.
class slots {
 public:
  struct slot {
    std::atomic<std::thread::id> thread{};  // no thread: the slot is free
    holdfast_lease raw{};                   // all 0: the thread waits
  };

  slots() = default;
  slots(const slots&) = delete;
  slots& operator=(const slots&) = delete;
  ~slots() {
    while (block* const next = first_.next.load(std::memory_order_relaxed)) {
      first_.next.store(next->next.load(std::memory_order_relaxed), std::memory_order_relaxed);
      delete next;
    }
  }

  /// Takes a slot for the calling thread.
  slot& take() {
    for (block* at = &first_;; at = &next_of(*at)) {
      for (slot& each : at->slots) {
        std::thread::id nobody{};
        // Acquire: pairs with give_back() of the previous thread, which has finished writing the slot.
        if (each.thread.load(std::memory_order_relaxed) == nobody &&
            each.thread.compare_exchange_strong(nobody, std::this_thread::get_id(), std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
          each.raw = {};
          return each;
        }
      }
    }
  }
  static void give_back(slot& own) noexcept { own.thread.store({}, std::memory_order_release); }
  /// Returns the slot of the calling thread, or null if the thread holds nothing here.
  slot* find() noexcept {
    const std::thread::id self = std::this_thread::get_id();
    return find_if(
        [&](slot& each) { return each.thread.load(std::memory_order_relaxed) == self && each.raw.owner != 0; });
  }
  /// Returns a slot that is in use, or null if there is none. REQUIRES: no thread uses the object any more.
  slot* find_any() noexcept {
    return find_if([](slot& each) { return each.thread.load(std::memory_order_acquire) != std::thread::id{}; });
  }

 private:
  struct block {
    slot slots[4];
    std::atomic<block*> next{nullptr};
  };

  template <class Is>
  slot* find_if(Is&& is) noexcept {
    for (block* at = &first_; at != nullptr; at = at->next.load(std::memory_order_acquire))
      for (slot& each : at->slots)
        if (is(each)) return &each;
    return nullptr;
  }
  static block& next_of(block& at) {
    block* next = at.next.load(std::memory_order_acquire);
    if (next != nullptr) return *next;
    auto made = std::make_unique<block>();
    // Release: other threads see the new block initialised.
    if (at.next.compare_exchange_strong(next, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *next;
  }

  block first_;
};

/// The common base of mutex and shared_mutex. Any number of threads may use one object at the same time, as with a
/// mutex of the standard library. Each thread unlocks what it has locked.
class key_mutex {
 public:
  key_mutex(dictionary dict, std::string_view key, terms how = {}) : dict_(dict), key_(key), how_(std::move(how)) {}
  key_mutex(const key_mutex&) = delete;
  key_mutex& operator=(const key_mutex&) = delete;
  ~key_mutex() {
    while (slots::slot* const left = slots_.find_any()) {
      unlock_for_certain(dict_.handle(), key_, left->raw);
      slots::give_back(*left);
    }
  }

  /// Unlocks and returns the outcome. After errc::not_owner or removed, the lock was already lost. After errc::timeout,
  /// it is still held.
  result<void> release() {
    slots::slot* const own = slots_.find();
    if (own == nullptr) return failure{errc::not_owner, "this thread has not locked it"};
    const int code = holdfast_unlock(dict_.handle(), key_.data(), key_.size(), &own->raw);
    if (own->raw.owner == 0) forget(*own);
    return outcome(code);
  }
  /// Sets a new exptime for the lock of the calling thread.
  result<void> renew(duration exptime) {
    holdfast_lease none{};
    const slots::slot* const own = slots_.find();
    return outcome(holdfast_lock_renew(dict_.handle(), key_.data(), key_.size(), own != nullptr ? &own->raw : &none,
                                       exptime.count()));
  }
  /// Returns whether the calling thread has locked the mutex and still holds it.
  bool valid() noexcept {
    const slots::slot* const own = slots_.find();
    double left = 0;
    return own != nullptr &&
           holdfast_lock_remaining(dict_.handle(), key_.data(), key_.size(), &own->raw, &left) == HOLDFAST_OK;
  }
  /// Returns the fencing token of the calling thread's lock, or 0 if the thread has not locked it.
  std::uint64_t token() noexcept {
    const slots::slot* const own = slots_.find();
    return own != nullptr ? own->raw.sequence : 0;
  }

 protected:
  /// Locks, or returns the reason of the failure. `want` is as in request_of().
  result<void> take(duration timeout, std::uint32_t want) {
    if (want != 1 && valid()) return failure{errc::deadlock, "this thread already holds the lock"};
    forget_lost();
    slots::slot& own = slots_.take();
    holdfast_request request = request_of(timeout, how_, want);
    request.holder_task = task_of_this_thread();
    if (this_thread.held != 0) {
      request.task = request.holder_task;
      request.holds = HOLDFAST_HOLDS_SOMETHING;
    }
    const int code = holdfast_acquire(dict_.handle(), key_.data(), key_.size(), &request, &own.raw);
    if (code == HOLDFAST_OK) {
      ++this_thread.held;
      return {};
    }
    slots::give_back(own);
    return failure::of(code);
  }
  result<void> make_exclusive(duration timeout) {
    const slots::slot* const own = slots_.find();
    if (own == nullptr) return failure{errc::not_owner, "this thread has not locked it"};
    return outcome(
        holdfast_upgrade(dict_.handle(), key_.data(), key_.size(), timeout.count(), task_of_this_thread(), &own->raw));
  }
  /// Returns whether the lock was taken. Throws on every failure, except if the lock was not free in time.
  bool try_take(duration timeout, std::uint32_t want) {
    const result<void> taken = take(timeout, want);
    if (taken) return true;
    const errc why = taken.error().code;
    if (why != errc::locked && why != errc::elsewhere && why != errc::timeout) raise(taken.error());
    return false;
  }
  template <class Clock, class Duration>
  bool try_take_until(const std::chrono::time_point<Clock, Duration>& time, std::uint32_t want) {
    for (;;) {  // repeated, because an adjustable clock may show an earlier time after the wait
      const duration left = time - Clock::now();
      if (try_take(left, want)) return true;
      if (Clock::now() >= time) return false;
    }
  }
  void give_back() noexcept {
    slots::slot* const own = slots_.find();
    if (own == nullptr) return;
    unlock_for_certain(dict_.handle(), key_, own->raw);
    forget(*own);
  }

 private:
  // Forgets locks that this thread has lost but not unlocked. Otherwise, the next unlock would release one of them.
  void forget_lost() noexcept {
    double left = 0;
    while (slots::slot* const own = slots_.find()) {
      const int code = holdfast_lock_remaining(dict_.handle(), key_.data(), key_.size(), &own->raw, &left);
      if (code != HOLDFAST_NOT_OWNER && code != HOLDFAST_REMOVED) return;
      forget(*own);
    }
  }
  static void forget(slots::slot& own) noexcept {
    slots::give_back(own);
    if (this_thread.held != 0) --this_thread.held;
  }

  dictionary dict_;
  std::string key_;
  terms how_;
  slots slots_;
};

/// An exclusive lock with the calls of a mutex of the standard library. `Want` is as in request_of().
template <std::uint32_t Want>
class exclusive_mutex : public key_mutex {
 public:
  using key_mutex::key_mutex;

  /// Locks as lock() does, but returns the reason of a failure.
  result<void> acquire(duration timeout = forever) { return take(timeout, Want); }

  void lock() { acquire().value(); }
  bool try_lock() { return try_take(duration(0), Want); }
  bool try_lock_for(duration timeout) { return try_take(timeout, Want); }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) {
    return try_take_until(time, Want);
  }
  void unlock() noexcept { give_back(); }
};

}  // namespace detail

/// A lock with the interface of a standard mutex: a TimedLockable, for std::lock_guard, unique_lock and scoped_lock. If
/// threads wait for each other through such mutexes, directly or through other threads, even across processes, one of
/// them gets an exception whose code equals std::errc::resource_deadlock_would_occur.
class mutex : public detail::exclusive_mutex<0> {
 public:
  using exclusive_mutex::exclusive_mutex;
};

/// An rwlock with the interface of a standard shared mutex. It also works with std::shared_lock.
class shared_mutex : public detail::exclusive_mutex<HOLDFAST_ALL_PERMITS> {
 public:
  using exclusive_mutex::exclusive_mutex;

  result<void> acquire_shared(duration timeout = forever) { return take(timeout, 1); }

  void lock_shared() { acquire_shared().value(); }
  /// Makes the calling thread's shared lock exclusive, after waiting until all other shared locks have been released.
  /// On failure, the shared lock stays. errc::deadlock means that another thread is waiting to upgrade its shared lock,
  /// and continues when this thread unlocks.
  result<void> upgrade(duration timeout = forever) { return make_exclusive(timeout); }

  bool try_lock_shared() { return try_take(duration(0), 1); }
  bool try_lock_shared_for(duration timeout) { return try_take(timeout, 1); }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& time) {
    return try_take_until(time, 1);
  }
  void unlock_shared() noexcept { give_back(); }
};

}  // namespace v1
}  // namespace holdfast

#endif
