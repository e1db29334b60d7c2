// Sleeps, and adds up the time that a test intends to sleep.
#pragma once

#include <chrono>
#include <thread>

#include "platform/platform.h"

namespace holdfast::test {

inline double now() { return static_cast<double>(platform::monotonic_ns()) / 1e9; }

/// Returns how many seconds this thread has intended to sleep so far.
inline double& slept() {
  thread_local double seconds = 0;
  return seconds;
}

inline void sleep_ms(int ms) {
  slept() += ms / 1e3;
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace holdfast::test
