// Time, as the agent takes it.
#pragma once

#include <cstdint>

namespace holdfast::agent {

using Milliseconds = std::int64_t;

class Clock {
 public:
  virtual ~Clock() = default;

  /// CLOCK_BOOTTIME: it runs on while the machine is suspended. All deadlines count from it.
  virtual Milliseconds boot_ms() const = 0;
  /// The same in microseconds, to measure with.
  virtual std::int64_t boot_us() const { return boot_ms() * 1000; }
  /// CLOCK_REALTIME. For people, and to notice that this machine's memory was copied or put back (agent/keeper.h).
  virtual Milliseconds wall_ms() const = 0;
};

}  // namespace holdfast::agent
