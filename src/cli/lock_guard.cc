#include "cli/lock_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include "cli/descriptor.h"
#include "cli/title.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

/// How long a living parent has to end the hold, which gives the lock back as its holder would.
constexpr int kParentMs = 1000;

/// It keeps nothing else open, so that no pipe and no file system waits for it.
void close_all_but(std::array<int, 3> kept) noexcept {
  std::sort(kept.begin(), kept.end());
  unsigned next = 0;
  for (const int one : kept) {
    const auto descriptor = static_cast<unsigned>(one);
    if (descriptor > next) close_between(next, descriptor - 1);
    next = descriptor + 1;
  }
  close_between(next, ~0U);
}

/// Only KILL and STOP reach it, and no terminal does: what ends the command and its parent must not end it first.
[[noreturn]] void guard(int child, int parent, int hold, const std::string& key) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  set_title(fmt::format("holdfast: guard of {}", key));
  ::prctl(PR_SET_NAME, "holdfast-guard");
  close_all_but({child, parent, hold});
  if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
  pollfd ended{child, POLLIN, 0};
  while (::poll(&ended, 1, -1) <= 0) continue;
  ended.fd = parent;
  ::poll(&ended, 1, kParentMs);
  holdfast_end_hold(hold);
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

pid_t start_guard(pid_t child, int hold, const std::string& key) {
#ifdef SYS_pidfd_open
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Descriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (end.get() < 0 || self.get() < 0) return 0;
  const pid_t pid = ::fork();
  if (pid == 0) guard(end.get(), self.get(), hold, key);
  return std::max(pid, 0);
#else
  return 0;
#endif
}

bool has_ended_hold(pid_t guard) {
  siginfo_t info{};
  return guard != 0 && ::waitid(P_PID, static_cast<id_t>(guard), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == guard;
}

void end_guard(pid_t guard) {
  if (guard == 0) return;
  ::kill(guard, SIGKILL);
  ::waitpid(guard, nullptr, 0);
}

}  // namespace holdfast::cli
