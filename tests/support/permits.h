// The permits of one key, the processes that want them, and their waiters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "support/dict_test.h"
#include "support/waiting.h"

namespace holdfast::test {

inline constexpr std::uint32_t kAll = HOLDFAST_ALL_PERMITS;

class PermitsTest : public DictTest {
 protected:
  PermitsTest() : DictTest({.size = 32768}) {}

  EntryView view(const std::string& key) { return place_of(key).view; }
  PermitFields& fields(const std::string& key = "key") { return view(key).permits(); }

  /// Acquires permits of a semaphore that has three.
  int acquire(std::uint32_t want, holdfast_lease* lease, double exptime = 0) {
    return dict.try_permits("key", HOLDFAST_SEMAPHORE, want, 3, exptime, lease);
  }
  holdfast_lease acquired(std::uint32_t want = 1, double exptime = 0) {
    holdfast_lease lease{};
    EXPECT_EQ(acquire(want, &lease, exptime), HOLDFAST_OK);
    return lease;
  }
  int read(holdfast_lease* lease, double exptime = 0) {
    return dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, exptime, lease);
  }
  int write(holdfast_lease* lease, double exptime = 0) {
    return dict.try_permits("key", HOLDFAST_RWLOCK, kAll, 0, exptime, lease);
  }
  /// Releases the lease after the first waiter has waited so long that no process may overtake it.
  int post(holdfast_lease& lease) {
    sleep_ms(1);
    return dict.unlock("key", &lease);
  }
};

/// A waiter for a semaphore with three permits, or for an rwlock. Its destructor leaves the queue.
class PermitsWaiter : public Parked {
 public:
  PermitsWaiter(Dict& dict, int kind, std::uint32_t want, bool fair = false)
      : Parked(fair), dict_(dict), kind_(kind), want_(want) {
    is_woken();  // clears wake-ups that an earlier waiter has left
  }
  ~PermitsWaiter() {
    if (waiting_) leave();
  }
  PermitsWaiter(const PermitsWaiter&) = delete;
  PermitsWaiter& operator=(const PermitsWaiter&) = delete;

  int wait() {
    const int code = wait_for_permits(dict_, "key", kind_, want_, 3, &lease);
    waiting_ = code == HOLDFAST_LOCKED;
    return code;
  }
  int leave() {
    waiting_ = false;
    return Parked::leave(dict_, "key");
  }
  /// Returns whether the waiter was woken within this time.
  bool is_woken(double seconds = 0) { return sleep(seconds); }
  /// Waits until the waiter gets the permits. Returns false after ten seconds.
  bool get() {
    for (const double end = holdfast_now() + 10; holdfast_now() < end;) {
      if (wait() == HOLDFAST_OK) return true;
      is_woken(std::min(sleep_time(), 0.5));
    }
    return false;
  }

  holdfast_lease lease{};

 private:
  Dict& dict_;
  const int kind_;
  const std::uint32_t want_;
  bool waiting_ = false;
};

class Reader : public PermitsWaiter {
 public:
  explicit Reader(Dict& dict) : PermitsWaiter(dict, HOLDFAST_RWLOCK, 1) {}
};
class Writer : public PermitsWaiter {
 public:
  explicit Writer(Dict& dict) : PermitsWaiter(dict, HOLDFAST_RWLOCK, kAll) {}
};
/// A reader of the rwlock that may become the writer.
class Upgrader : public Parked {
 public:
  explicit Upgrader(Dict& dict, double exptime = 0) : dict_(dict) {
    sleep(0);  // clears wake-ups that an earlier waiter has left
    EXPECT_EQ(dict.try_permits("key", HOLDFAST_RWLOCK, 1, 0, exptime, &lease), HOLDFAST_OK);
  }

  int try_upgrade() { return dict_.upgrade("key", lease); }
  /// Makes one step of a wait.
  int upgrade() { return dict_.upgrade("key", lease, &wait_); }
  int leave() { return Parked::leave(dict_, "key"); }
  int unlock() { return dict_.unlock("key", &lease); }
  bool is_woken(double seconds = 0) { return sleep(seconds); }
  /// Returns the code of the wait, or LOCKED after ten seconds.
  int wait_to_upgrade() {
    int code = HOLDFAST_LOCKED;
    for (const double end = now() + 10; now() < end;) {
      code = upgrade();
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
      is_woken(std::min(sleep_time(), 0.5));
    }
    leave();
    return code;
  }
  /// Returns the number of permits that the lease has.
  std::uint32_t permits() {
    holdfast_holder holders[8]{};
    std::uint32_t count = 0;
    std::uint32_t waiters = 0;
    EXPECT_EQ(holdfast_holders(dict_.handle, "key", 3, holders, 8, &count, &waiters), HOLDFAST_OK);
    for (const holdfast_holder& holder : holders)
      if (holder.sequence == lease.sequence && holder.owner == lease.owner) return holder.permits;
    return 0;
  }

  holdfast_lease lease{};

 private:
  Dict& dict_;
};

class Taker : public PermitsWaiter {
 public:
  explicit Taker(Dict& dict, std::uint32_t want = 1, bool fair = false)
      : PermitsWaiter(dict, HOLDFAST_SEMAPHORE, want, fair) {}
};

}  // namespace holdfast::test
