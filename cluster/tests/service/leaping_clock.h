// Clocks of a machine that a test sets while its processes run: BOOTTIME leaps when a machine was suspended, REALTIME
// also when somebody sets it. MONOTONIC does neither.
//
// leaping_clock.cc defines clock_gettime() and timerfd_settime(): in a test program itself, and in agents as a library
// that is loaded before all others.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

/// By how much the clocks of one machine are ahead: in a file that its processes map.
struct ClockLeap {
  std::int64_t boot_ms;
  std::int64_t wall_ms;
};

/// The variable by which a process finds the file.
inline constexpr const char* kClockFile = "HOLDFAST_TEST_CLOCK";

/// Makes the file. The machine's clocks are those of the system until it is changed.
ClockLeap* new_clock(const std::string& path);
/// From now on this process has the clocks of that file.
void use_clock(const std::string& path);

}  // namespace holdfast::test
