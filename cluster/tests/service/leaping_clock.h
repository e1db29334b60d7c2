// A machine's clocks, which a test sets while the machine's processes run. After a suspend, BOOTTIME and REALTIME leap.
// REALTIME also leaps whenever it is set. MONOTONIC never leaps.
// leaping_clock.cc, which is linked into test programs and loaded into agents before all other libraries, defines
// clock_gettime() and timerfd_settime().
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

/// How far a machine's clocks are ahead. The structure is in a file that the machine's processes map.
struct ClockLeap {
  std::int64_t boot_ms;
  std::int64_t wall_ms;
};

/// The environment variable that names the file.
inline constexpr const char* kClockFile = "HOLDFAST_TEST_CLOCK";

/// Creates the file. Until the test changes it, the machine has the system's clocks.
ClockLeap* new_clock(const std::string& path);
/// Makes this process use the clocks in the file.
void use_clock(const std::string& path);

}  // namespace holdfast::test
