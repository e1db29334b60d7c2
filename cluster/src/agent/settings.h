// What may be set about an agent, and its name for people.
#pragma once

#include <cstdint>
#include <string>

#include "agent/clock.h"

namespace holdfast::agent {

struct Settings {
  std::int64_t ttl_s = 10;
  /// Local programs keep a lock for so long after another machine is known to wait. Rows of these two: Eight
  /// contenders.
  Milliseconds slice_ms = 5;
  /// And no longer than that in all, when another machine waits.
  Milliseconds max_hold_ms = 50;
  /// A lock that nobody uses or waits for goes back after this. Rows: requests for a lock that nobody has, and its
  /// release.
  Milliseconds linger_ms = 200;
  /// Each wait for another machine is bounded by a look this often, as no bell can be relied on. Rows:
  /// What is asked of etcd.
  Milliseconds poll_ms = 1000;
  std::string host;
  std::string machine;  // its boot id
};

/// Between repetitions of what failed: no row shows it.
inline constexpr Milliseconds kBackOffMin = 20;
inline constexpr Milliseconds kBackOffMax = 1000;

inline Milliseconds next_back_off(Milliseconds last) {
  return last == 0 ? kBackOffMin : last * 2 > kBackOffMax ? kBackOffMax : last * 2;
}

}  // namespace holdfast::agent
