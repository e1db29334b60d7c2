#include "lock/lock_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "cli/descriptor.h"
#include "inspect/proc.h"
#include "lock/lock_hold.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

/// How long a parent that runs has to end the hold, and how often to look whether it does.
constexpr int kParentMs = 1000;
constexpr int kLookAtParentEveryMs = 10;

/// It keeps nothing else open, so that no pipe and no file system waits for it.
void close_all_but(std::array<int, 5> kept) noexcept {
  std::sort(kept.begin(), kept.end());
  unsigned next = 0;
  for (const int one : kept) {
    if (one < 0) continue;
    const auto descriptor = static_cast<unsigned>(one);
    if (descriptor > next) close_between(next, descriptor - 1);
    next = descriptor + 1;
  }
  close_between(next, ~0U);
}

/// Until the parent has ended, or is stopped and would keep waiters waiting.
void await_parent(int parent) {
  const pid_t pid = ::getppid();
  pollfd ended{parent, POLLIN, 0};
  for (int waited = 0; waited < kParentMs; waited += kLookAtParentEveryMs) {
    if (::poll(&ended, 1, kLookAtParentEveryMs) != 0) return;
    const auto stat = inspect::read_stat(static_cast<std::uint32_t>(pid));
    if (!stat || stat->is_stopped()) return;
  }
}

/// Only KILL and STOP reach it, and no terminal does: what ends the command and its parent must not end it first.
[[noreturn]] void guard(int child, int parent, Hold& hold, std::atomic<bool>& acts, const std::string& key) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  set_title(fmt::format("holdfast: guard of {}", key));
  ::prctl(PR_SET_NAME, "holdfast-guard");
  const auto [life, keeper, use] = hold.descriptors();
  close_all_but({child, parent, life, keeper, use});
  if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
  pollfd ended{child, POLLIN, 0};
  while (::poll(&ended, 1, -1) <= 0) continue;
  await_parent(parent);
  acts.store(true, std::memory_order_release);  // pairs with has_acted(): before anybody can have the lock
  hold.end();
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

bool LockGuard::start(pid_t child, Hold& hold, const std::string& key) {
  end();
  pid_ = 0;
#ifdef SYS_pidfd_open
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Descriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (end.get() < 0 || self.get() < 0 || !share_memory()) return false;
  pid_ = ::fork();
  if (pid_ == 0) guard(end.get(), self.get(), hold, *acts_, key);
#endif
  return pid_ > 0;
}

bool LockGuard::share_memory() {
  if (acts_ != nullptr) return true;
  void* const memory = ::mmap(nullptr, sizeof *acts_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  acts_ = std::construct_at(static_cast<std::atomic<bool>*>(memory), false);
  return true;
}

void LockGuard::end() const {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace holdfast::cli
