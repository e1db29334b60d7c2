// A waiter for locks, as a host does it.
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

/// Whether the waiter was woken within that time.
inline bool sleep_until_woken(holdfast_parker* parker, std::uint32_t waiter, double seconds) {
  std::uint32_t woken = 0;
  const double end = now() + std::max(seconds, 0.0);
  do {
    if (holdfast_parker_sleep(parker, std::max(end - now(), 0.0), &woken, 1) > 0) return woken == waiter;
  } while (now() < end);
  return false;
}

/// A parker with one waiter, and the loop that include/holdfast.h describes.
class Waiting {
 public:
  explicit Waiting(bool fair = false)
      : parker_(holdfast_parker_new()), waiter_(holdfast_waiter_open(parker_.get())), fair_(fair) {
    sleep(0);  // reads the mail that a waiter of this number left, in an earlier test of this process
  }

  /// LOCKED when the time is over; the waiter has left the queue then.
  int lock(Dict& dict, const std::string& key, double timeout, holdfast_lease* lease, double exptime = 0) {
    const double end = now() + timeout;
    for (;;) {
      const int code = once(dict, key, lease, exptime);
      // TIMEOUT: a process inside the dictionary is held up there.
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
      if (now() >= end) return leave(dict, key) == HOLDFAST_OK ? HOLDFAST_LOCKED : -1;
      sleep(std::min(sleep_time_, end - now()));
    }
  }
  int once(Dict& dict, const std::string& key, holdfast_lease* lease, double exptime = 0) {
    holdfast_wait wait{};
    wait.parker = parker_.get();
    wait.waiter = waiter_;
    wait.fair = fair_ ? 1 : 0;
    const int code = holdfast_lock_wait(dict.handle, key.data(), key.size(), exptime, &wait, lease);
    sleep_time_ = wait.sleep;
    return code;
  }
  int leave(Dict& dict, const std::string& key) {
    return unless_held_up([&] { return dict.leave(key, parker_.get(), waiter_); });
  }
  /// Whether the waiter was woken within that time.
  bool sleep(double seconds) { return sleep_until_woken(parker_.get(), waiter_, seconds); }

  double sleep_time() const { return sleep_time_; }
  std::uint32_t waiter() const { return waiter_; }
  holdfast_parker* parker() const { return parker_.get(); }

 private:
  std::unique_ptr<holdfast_parker, CloseParker> parker_;
  std::uint32_t waiter_;
  bool fair_;
  double sleep_time_ = 0;
};

}  // namespace holdfast::test
