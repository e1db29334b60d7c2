// The agent's clocks.
#pragma once

#include <cstdint>

namespace holdfast::agent {

using Milliseconds = std::int64_t;

class Clock {
 public:
  virtual ~Clock() = default;

  /// Returns CLOCK_BOOTTIME, which also runs while the machine is suspended. All deadlines use this clock.
  virtual Milliseconds boot_ms() const = 0;
  /// Returns CLOCK_BOOTTIME in microseconds, for measurements.
  virtual std::int64_t boot_us() const { return boot_ms() * 1000; }
  /// Returns CLOCK_REALTIME, for people, and to notice that this machine was copied or restored (agent/keeper.h).
  virtual Milliseconds wall_ms() const = 0;
};

}  // namespace holdfast::agent
