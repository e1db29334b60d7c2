#include "support/call_limit.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/clock.h"

namespace holdfast::test {

namespace {

constexpr double kTick = 0.02;

/// Returns how many seconds the thread was ready to run but did not have a processor, or 0 if the kernel does not
/// report this.
double kept_waiting(int thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/schedstat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char text[128] = {};
  const bool known = fd >= 0 && ::read(fd, text, sizeof text - 1) > 0;
  if (fd >= 0) ::close(fd);
  unsigned long long ran = 0;
  unsigned long long waited = 0;
  if (!known || std::sscanf(text, "%llu %llu", &ran, &waited) != 2) return 0;
  return static_cast<double>(waited) / 1e9;
}

}  // namespace

CallLimit::CallLimit(std::atomic<const char*>& current) : current_(current) {
  current_.store(nullptr);
  std::thread([this, thread = static_cast<int>(::syscall(SYS_gettid))] { watch(thread); }).detach();
}

void CallLimit::watch(int thread) {
  unsigned long watched = 0;
  double elapsed = 0;
  double waited_before = 0;
  for (double last = now();;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kTick));
    const double woke = now();
    // A longer step means that this thread was delayed, and probably the watched thread was delayed with it.
    const double step = std::min(woke - last, 2 * kTick);
    last = woke;
    const char* const name = current_.load(std::memory_order_acquire);  // pairs with Scope
    const unsigned long number = number_.load(std::memory_order_relaxed);
    if (name == nullptr || number != watched) {
      watched = number;
      elapsed = 0;
      waited_before = name != nullptr ? kept_waiting(thread) : 0;
      continue;
    }
    elapsed += step;
    if (elapsed <= kLongestCall || elapsed - (kept_waiting(thread) - waited_before) <= kLongestCall) continue;
    std::fprintf(stderr, "%s takes longer than %.1f s\n", name, kLongestCall);
    std::abort();
  }
}

}  // namespace holdfast::test
