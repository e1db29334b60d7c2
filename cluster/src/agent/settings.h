// The settings of an agent, and the names by which people know it.
#pragma once

#include <cstdint>
#include <string>

#include "agent/clock.h"

namespace holdfast::agent {

struct Settings {
  std::int64_t ttl_s = 10;
  /// How long local programs keep a lock after another machine is known to wait for it. The benchmark for this setting
  /// and the next is "Eight contenders".
  Milliseconds slice_ms = 5;
  /// The longest time for which local programs together keep a lock that another machine waits for.
  Milliseconds max_hold_ms = 50;
  /// How long an unused lock is kept. Benchmark: "requests for a lock that nobody has, and its release".
  Milliseconds linger_ms = 200;
  /// How often each wait for a lock of another machine is checked, because notifications may be lost. Benchmark: "What
  /// is asked of etcd".
  Milliseconds poll_ms = 1000;
  std::string host;
  std::string machine;  // the machine's boot id
};

/// The shortest and longest pause before a failed request is repeated. No benchmark depends on them.
inline constexpr Milliseconds kBackOffMin = 20;
inline constexpr Milliseconds kBackOffMax = 1000;

inline Milliseconds next_back_off(Milliseconds last) {
  return last == 0 ? kBackOffMin : last * 2 > kBackOffMax ? kBackOffMax : last * 2;
}

}  // namespace holdfast::agent
