// Barriers in other threads, and whether these still run.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

int barrier(int command) noexcept { return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0)); }

}  // namespace

bool pass_barrier_in_all_threads() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_single_threaded()) return true;
  const int saved = errno;
  bool passed = barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  // EPERM: this process has not registered yet.
  if (!passed && errno == EPERM && barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
    passed = barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  errno = saved;
  return passed;
}

std::uint64_t this_thread() noexcept {
  return static_cast<std::uint64_t>(::getpid()) << 32 | static_cast<std::uint32_t>(::syscall(SYS_gettid));
}

bool has_thread_ended(std::uint64_t thread) noexcept {
  const auto process = static_cast<pid_t>(thread >> 32);
  if (process != ::getpid()) return false;
  const int saved = errno;
  const bool ended = ::syscall(SYS_tgkill, process, static_cast<pid_t>(thread & 0xFFFFFFFFU), 0) != 0 && errno == ESRCH;
  errno = saved;
  return ended;
}

}  // namespace holdfast::platform
