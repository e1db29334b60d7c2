#include "cli/signals.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace holdfast::cli {

namespace {

constexpr std::array kHandled = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD};
constexpr std::array kLeftToMaster = {SIGINT, SIGQUIT, SIGHUP};

void do_nothing(int /*signal*/) {}

void set_disposition(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

sigset_t handled_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kHandled) sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalQueue::SignalQueue() {
  const sigset_t handled = handled_set();
  sigprocmask(SIG_BLOCK, &handled, &old_mask_);
  sigemptyset(&ignored_);
  for (const int signal : kLeftToMaster) {
    struct sigaction old {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) sigaddset(&ignored_, signal);
  }
  // The parent may have left signals ignored. If CHLD were ignored, the kernel would reap the workers itself.
  for (const int signal : kHandled) set_disposition(signal, SIG_DFL);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe_);
  descriptor_ = Descriptor(signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
  if (descriptor_.get() < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<signalfd_siginfo> SignalQueue::next() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return info;
}

void SignalQueue::become_worker() {
  descriptor_.reset();
  for (const int signal : kLeftToMaster)
    set_disposition(signal, sigismember(&ignored_, signal) == 1 ? SIG_IGN : do_nothing);
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  // Unblock last, so that signals received since the fork get the dispositions above.
  sigset_t mask = old_mask_;
  for (const int signal : kHandled) sigdelset(&mask, signal);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void die_by(int signal) {
  set_disposition(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  // Process 1 of a pid namespace survives signals that it sends to itself.
  std::_Exit(128 + signal);
}

void follow_parent(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() != parent) std::_Exit(EXIT_FAILURE);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace holdfast::cli
