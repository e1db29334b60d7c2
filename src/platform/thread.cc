#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

// Counts the processors that this thread or the first process may use. Workers are often pinned to one processor each,
// so this thread's mask is not enough. The first process of a container or machine is never pinned.
int count_processors() noexcept {
  constexpr ::pid_t kFirst = 1;
  cpu_set_t own;
  cpu_set_t all;
  if (::sched_getaffinity(0, sizeof own, &own) == 0) {
    if (::sched_getaffinity(kFirst, sizeof all, &all) == 0) CPU_OR(&own, &own, &all);
    return CPU_COUNT(&own);
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

// The lower half is the number of threads that start_thread() has started. The upper half is the pid, because a forked
// child does not have these threads.
std::atomic<std::uint64_t> background_threads{0};

void count_background_thread(std::uint64_t by) noexcept {
  const std::uint64_t none = static_cast<std::uint64_t>(::getpid()) << 32;
  std::uint64_t count = background_threads.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    next = (count >> 32 == none >> 32 ? count : none) + by;
  } while (!background_threads.compare_exchange_weak(count, next, std::memory_order_relaxed));
}

int barrier(int command) noexcept { return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0)); }

}  // namespace

void background_thread_ends() noexcept { count_background_thread(~std::uint64_t{0}); }

bool is_alone_with_background_threads() noexcept {
  struct stat tasks;
  if (::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink < 3) return false;
  const std::uint64_t count = background_threads.load(std::memory_order_relaxed);
  const bool own = count >> 32 == static_cast<std::uint64_t>(::getpid());
  return tasks.st_nlink - 3 <= (own ? count & 0xFFFFFFFFU : 0);
}

void yield() noexcept { ::sched_yield(); }

int processor_count() noexcept {
  // With a dynamically initialised static, a child forked during the initialisation would wait forever.
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) {
    count = count_processors();
    known.store(count, std::memory_order_relaxed);
  }
  return count;
}

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number) return number;
  // The kernel has no random numbers yet, because the machine has just booted. The clock and the pid still distinguish
  // processes, and callers retry after a collision.
  return monotonic_ns() * 0x9E3779B97F4A7C15U ^ static_cast<std::uint64_t>(::getpid()) << 32;
}

int start_thread(void* (*body)(void*), void* argument) noexcept {
  // A stack only takes address space, because pages are allocated when they are used. The size is enough for the static
  // TLS of most hosts, which is part of the stack.
  constexpr std::size_t kStack = std::size_t{256} << 10;
  pthread_attr_t attributes;
  if (const int error = ::pthread_attr_init(&attributes)) return error;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGBUS);  // a blocked SIGBUS kills the process despite its handler (bus_guard.h)
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask
  pthread_t thread;
  int error = EINVAL;
  if (::pthread_attr_setstacksize(&attributes, kStack) == 0) {
    error = ::pthread_create(&thread, &attributes, body, argument);
  }
  if (error == EINVAL) {  // on this system, the stack is too small
    ::pthread_attr_destroy(&attributes);
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = ::pthread_create(&thread, &attributes, body, argument);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (error == 0) count_background_thread(1);
  return error;
}

void name_this_thread(const char* name) noexcept { ::pthread_setname_np(::pthread_self(), name); }

bool pass_barrier_in_all_threads() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_single_threaded()) return true;
  const int saved = errno;
  bool passed = barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  // EPERM means that this process has not registered yet.
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
