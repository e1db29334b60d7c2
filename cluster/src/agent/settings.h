// The settings of an agent, and the names that identify the agent to people.
#pragma once

#include <cstdint>
#include <string>

#include "agent/clock.h"

namespace holdfast::agent {

struct Settings {
  std::int64_t ttl_s = 10;
  /// How long local programs keep a lock after another machine is known to wait for it. The benchmark "Eight
  /// contenders" depends on this setting and the next.
  Milliseconds slice_ms = 5;
  /// The maximum time for which local programs together keep a lock that another machine waits for.
  Milliseconds max_hold_ms = 50;
  /// How long an unused lock is kept. The benchmark "requests for a lock that nobody has, and its release" depends on
  /// this setting.
  Milliseconds linger_ms = 200;
  /// How often each wait for another machine's lock is checked, because notifications may be lost. The benchmark "What
  /// is asked of etcd" depends on this setting.
  Milliseconds poll_ms = 1000;
  std::string host;
  std::string machine;  // the machine's boot id
};

/// The minimum and maximum pause before a failed request is repeated. No benchmark depends on them.
inline constexpr Milliseconds kBackOffMin = 20;
inline constexpr Milliseconds kBackOffMax = 1000;

inline Milliseconds next_back_off(Milliseconds last) {
  return last == 0 ? kBackOffMin : last * 2 > kBackOffMax ? kBackOffMax : last * 2;
}

}  // namespace holdfast::agent
