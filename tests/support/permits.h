// Permits under one key: those that want them, and those that wait.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "support/dict_test.h"

namespace holdfast::test {

inline constexpr std::uint32_t kAll = HOLDFAST_ALL_PERMITS;

class PermitsTest : public DictTest {
 protected:
  PermitsTest() : DictTest({.size = 32768}) {}

  EntryView view(const std::string& key) { return place_of(key).view; }
  PermitFields& fields(const std::string& key = "key") { return view(key).permits(); }

  /// A semaphore of three.
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
  /// Gives back, when the first waiter has been that for so long that nobody passes it.
  int post(holdfast_lease& lease) {
    sleep_ms(1);
    return dict.unlock("key", &lease);
  }
};

/// A waiter of a semaphore of three, or of a rwlock.
class Waiting {
 public:
  Waiting(Dict& dict, int kind, std::uint32_t want, bool fair = false)
      : dict_(dict), kind_(kind), want_(want), parker_(holdfast_parker_new()) {
    is_woken();  // reads the mail that somebody before it did not
    wait_.parker = parker_;
    wait_.waiter = holdfast_waiter_open(parker_);
    wait_.fair = fair ? 1 : 0;
  }
  ~Waiting() {
    if (waiting_) leave();
    holdfast_parker_free(parker_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  int wait() {
    const int code = dict_.wait_permits("key", kind_, want_, 3, 0, &wait_, &lease);
    waiting_ = code == HOLDFAST_LOCKED;
    return code;
  }
  int leave() {
    waiting_ = false;
    return dict_.leave("key", parker_, wait_.waiter);
  }
  /// Whether it was woken within that time.
  bool is_woken(double seconds = 0) {
    const double end = now() + seconds;
    for (;;) {
      std::uint32_t woken = 0;
      if (holdfast_parker_sleep(parker_, std::max(end - now(), 0.0), &woken, 1) == 1) return woken == wait_.waiter;
      if (now() >= end) return false;  // else it was a signal, or a post for another waiter
    }
  }
  /// Waits until it has them; false after ten seconds.
  bool get() {
    for (const double end = holdfast_now() + 10; holdfast_now() < end;) {
      if (wait() == HOLDFAST_OK) return true;
      is_woken(std::min(wait_.sleep, 0.5));
    }
    return false;
  }
  double sleep_time() const { return wait_.sleep; }

  holdfast_lease lease{};

 private:
  Dict& dict_;
  const int kind_;
  const std::uint32_t want_;
  holdfast_parker* parker_;
  holdfast_wait wait_{};
  bool waiting_ = false;
};

class Reader : public Waiting {
 public:
  explicit Reader(Dict& dict) : Waiting(dict, HOLDFAST_RWLOCK, 1) {}
};
class Writer : public Waiting {
 public:
  explicit Writer(Dict& dict) : Waiting(dict, HOLDFAST_RWLOCK, kAll) {}
};
class Taker : public Waiting {
 public:
  explicit Taker(Dict& dict, std::uint32_t want = 1, bool fair = false)
      : Waiting(dict, HOLDFAST_SEMAPHORE, want, fair) {}
};

}  // namespace holdfast::test
