#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4,
              "the kernel compares the word itself");

WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::uint64_t deadline_ns) noexcept {
  timespec deadline;
  deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond);
  deadline.tv_nsec = static_cast<long>(deadline_ns % kNsPerSecond);
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, FUTEX_WAIT a relative time.
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected,
                                deadline_ns == kNever ? nullptr : &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == 0) return WaitResult::woken;
  if (errno == EAGAIN) return WaitResult::changed;
  if (errno == ETIMEDOUT) return WaitResult::timed_out;
  return errno == EINTR ? WaitResult::interrupted : WaitResult::failed;
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  const int saved = errno;
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  errno = saved;
  return woken > 0 ? static_cast<int>(woken) : 0;
}

}  // namespace holdfast::platform
