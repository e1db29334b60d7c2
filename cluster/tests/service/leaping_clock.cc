#include "service/leaping_clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace holdfast::test {

namespace {

constexpr long kNsPerMs = 1'000'000;
constexpr long kNsPerSecond = 1'000'000'000;

std::atomic<const ClockLeap*> leap{nullptr};

ClockLeap* map(int fd) {
  if (fd < 0) std::abort();
  void* const memory = ::mmap(nullptr, sizeof(ClockLeap), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory != MAP_FAILED ? static_cast<ClockLeap*>(memory) : nullptr;
}

/// Returns how far the clock is ahead. The test may change the value at any time.
std::int64_t ahead(clockid_t clock) {
  const ClockLeap* const now = leap.load(std::memory_order_acquire);
  if (now == nullptr || (clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME)) return 0;
  return *static_cast<const volatile std::int64_t*>(clock == CLOCK_BOOTTIME ? &now->boot_ms : &now->wall_ms);
}

void add_ms(timespec& time, std::int64_t ms) {
  const std::int64_t ns = time.tv_nsec + ms % 1000 * kNsPerMs;
  time.tv_sec += ms / 1000 + ns / kNsPerSecond;
  time.tv_nsec = ns % kNsPerSecond;
  if (time.tv_nsec >= 0) return;
  time.tv_nsec += kNsPerSecond;
  --time.tv_sec;
}

/// Runs before main, and uses the file that the environment variable names.
[[maybe_unused]] const bool kBegun = [] {
  if (const char* const path = std::getenv(kClockFile)) use_clock(path);
  return true;
}();

}  // namespace

ClockLeap* new_clock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(ClockLeap)) != 0) std::abort();
  return map(fd);
}

void use_clock(const std::string& path) {
  leap.store(map(::open(path.c_str(), O_RDWR | O_CLOEXEC)), std::memory_order_release);
}

}  // namespace holdfast::test

// These functions are exported, so that they replace those of the C library.
extern "C" {

[[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0) holdfast::test::add_ms(*time, holdfast::test::ahead(clock));
  return result;
}

// Handles only timers on BOOTTIME, because the agent does not use any others.
[[gnu::visibility("default")]] int timerfd_settime(int fd, int flags, const itimerspec* when,
                                                   itimerspec* before) noexcept {
  itimerspec by_system = *when;
  const bool is_set = when->it_value.tv_sec != 0 || when->it_value.tv_nsec != 0;
  if (is_set && (flags & TFD_TIMER_ABSTIME) != 0)
    holdfast::test::add_ms(by_system.it_value, -holdfast::test::ahead(CLOCK_BOOTTIME));
  if (is_set && by_system.it_value.tv_sec < 0) by_system.it_value = {0, 1};
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, &by_system, before));
}
}
