#include <time.h>

#include <atomic>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

std::uint64_t nanoseconds(const timespec& time) noexcept {
  return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond + static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec time;
  ::clock_gettime(clock, &time);  // cannot fail for these clocks
  return nanoseconds(time);
}

}  // namespace

std::uint64_t monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

std::uint64_t coarse_monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

std::uint64_t coarse_monotonic_ms() noexcept {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000 + static_cast<std::uint64_t>(time.tv_nsec) / kNsPerMs;
}

std::uint64_t boottime_ns() noexcept { return read_clock(CLOCK_BOOTTIME); }

std::uint64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

std::uint64_t coarse_resolution_ns() noexcept {
  // With a dynamically initialised static, a child forked during the initialisation would wait forever.
  static constinit std::atomic<std::uint64_t> resolution{0};
  const std::uint64_t known = resolution.load(std::memory_order_relaxed);
  if (known != 0) return known;
  timespec time;
  ::clock_getres(CLOCK_MONOTONIC_COARSE, &time);
  resolution.store(nanoseconds(time), std::memory_order_relaxed);
  return nanoseconds(time);
}

void sleep_until(std::uint64_t deadline_ns) noexcept {
  timespec deadline;
  deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond);
  deadline.tv_nsec = static_cast<long>(deadline_ns % kNsPerSecond);
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
}

}  // namespace holdfast::platform
