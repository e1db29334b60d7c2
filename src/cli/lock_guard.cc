#include "cli/lock_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "cli/descriptor.h"
#include "cli/title.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

/// It keeps nothing else open, so that no pipe and no file system waits for it.
void close_all_but(int one, int other) noexcept {
  const auto low = static_cast<unsigned>(std::min(one, other));
  const auto high = static_cast<unsigned>(std::max(one, other));
  if (low > 0) close_between(0, low - 1);
  close_between(low + 1, high - 1);
  close_between(high + 1, ~0U);
}

/// Only KILL and STOP reach it, and no terminal does: what ends the command and its parent must not end it first.
[[noreturn]] void guard(int child, int hold, const std::string& key) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  set_title(fmt::format("holdfast: guard of {}", key));
  ::prctl(PR_SET_NAME, "holdfast-guard");
  close_all_but(child, hold);
  if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
  pollfd ended{child, POLLIN, 0};
  while (::poll(&ended, 1, -1) <= 0) continue;
  holdfast_end_hold(hold);
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

pid_t start_guard(pid_t child, int hold, const std::string& key) {
#ifdef SYS_pidfd_open
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (end.get() < 0) return 0;
  const pid_t pid = ::fork();
  if (pid == 0) guard(end.get(), hold, key);
  return std::max(pid, 0);
#else
  return 0;
#endif
}

void end_guard(pid_t guard) {
  if (guard == 0) return;
  ::kill(guard, SIGKILL);
  ::waitpid(guard, nullptr, 0);
}

}  // namespace holdfast::cli
