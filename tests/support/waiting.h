// Waiters that wait for locks as hosts do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast.h"
#include "support/clock.h"
#include "support/dict.h"

namespace holdfast::test {

struct CloseParker {
  void operator()(holdfast_parker* parker) const { holdfast_parker_free(parker); }
};

/// Returns whether the waiter was woken within this time.
inline bool sleep_until_woken(holdfast_parker* parker, std::uint32_t waiter, double seconds) {
  std::uint32_t woken = 0;
  const double end = now() + std::max(seconds, 0.0);
  do {
    if (holdfast_parker_sleep(parker, std::max(end - now(), 0.0), &woken, 1) > 0) return woken == waiter;
  } while (now() < end);
  return false;
}

/// A parker with one waiter.
class Parked {
 public:
  explicit Parked(bool fair = false) : parker_(holdfast_parker_new()) {
    wait_.parker = parker_.get();
    wait_.waiter = holdfast_waiter_open(parker_.get());
    wait_.fair = fair ? 1 : 0;
  }

  /// Returns whether the waiter was woken within this time.
  bool sleep(double seconds) { return sleep_until_woken(parker_.get(), wait_.waiter, seconds); }
  int leave(Dict& dict, const std::string& key) {
    return unless_held_up([&] { return dict.leave(key, parker_.get(), wait_.waiter); });
  }

  /// Makes one step of a wait.
  int wait_for_lock(Dict& dict, const std::string& key, holdfast_lease* lease, double exptime) {
    return holdfast_lock_wait(dict.handle, key.data(), key.size(), exptime, &wait_, lease);
  }
  int wait_for_permits(Dict& dict, const std::string& key, int kind, std::uint32_t want, std::uint32_t total,
                       holdfast_lease* lease) {
    return dict.wait_permits(key, kind, want, total, 0, &wait_, lease);
  }

  int wait_for_change(Dict& dict, const std::string& key, holdfast_version_of_key* version) {
    return holdfast_change_wait(dict.handle, key.data(), key.size(), &wait_, version);
  }

  double sleep_time() const { return wait_.sleep; }
  std::uint32_t waiter() const { return wait_.waiter; }
  holdfast_parker* parker() const { return parker_.get(); }

 protected:
  std::unique_ptr<holdfast_parker, CloseParker> parker_;
  holdfast_wait wait_{};
};

/// A waiter that waits with the loop that include/holdfast.h describes.
class Waiting : public Parked {
 public:
  explicit Waiting(bool fair = false) : Parked(fair) {
    sleep(0);  // clears wake-ups that an earlier test's waiter with the same number has left
  }

  /// Waits for the lock. On a timeout, leaves the queue and returns LOCKED.
  int lock(Dict& dict, const std::string& key, double timeout, holdfast_lease* lease, double exptime = 0) {
    const double end = now() + timeout;
    for (;;) {
      const int code = once(dict, key, lease, exptime);
      // TIMEOUT means that another process is delayed inside the dictionary.
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
      if (now() >= end) return leave(dict, key) == HOLDFAST_OK ? HOLDFAST_LOCKED : -1;
      sleep(std::min(sleep_time(), end - now()));
    }
  }
  int once(Dict& dict, const std::string& key, holdfast_lease* lease, double exptime = 0) {
    return wait_for_lock(dict, key, lease, exptime);
  }
  /// Waits for the end of the grant whose number is `*grant`. If `*grant` is 0, waits for the end of the current grant,
  /// and sets `*grant` to its number.
  int watch(Dict& dict, const std::string& key, std::uint64_t* grant) {
    return holdfast_lock_watch(dict.handle, key.data(), key.size(), &wait_, grant);
  }
};

}  // namespace holdfast::test
