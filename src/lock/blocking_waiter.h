// The waiter of a thread that blocks while it waits. Its parker is on the thread's stack, and exists only for this
// wait. So threads do not share parkers, a thread that exits leaves none behind, and a forked child inherits none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "base/time.h"
#include "dict/expiry.h"
#include "lock/request.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"

namespace holdfast {

/// Returns when a timeout that begins now will end (CLOCK_MONOTONIC, ns).
inline std::uint64_t deadline_of(double timeout) noexcept {
  if (timeout > kLongest) return kNever;
  return platform::monotonic_ns() + static_cast<std::uint64_t>(std::ceil(std::max(timeout, 0.0) * 1e9));
}

class BlockingWaiter {
 public:
  /// Throws std::bad_alloc, and std::runtime_error if the process has too many waiters.
  explicit BlockingWaiter(World& world) : parker_(world), waiter_(parker_.open_waiter()) {
    if (waiter_ == 0) throw std::runtime_error("too many waiters in this process: at most 1048576");
  }

  WaitStep step() noexcept { return {parker_, waiter_, sleep_seconds_}; }
  Parker& parker() noexcept { return parker_; }
  std::uint32_t number() const noexcept { return waiter_; }
  /// Sleeps for as long as the last step has said, or until the thread is woken. A signal does not end the sleep.
  void sleep(std::uint64_t deadline_ns) {
    const auto planned = static_cast<std::uint64_t>(sleep_seconds_ * 1e9);
    const std::uint64_t until_ns = std::min(platform::monotonic_ns() + planned, deadline_ns);
    std::uint32_t woken = 0;
    while (parker_.sleep(until_ns, {&woken, 1}) == 0 && platform::monotonic_ns() < until_ns) continue;
  }

 private:
  Parker parker_;
  std::uint32_t waiter_;
  double sleep_seconds_ = 0;
};

}  // namespace holdfast
