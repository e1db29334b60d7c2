#include "cli/passed_signals.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace holdfast::cli {

namespace {

constexpr std::array kPassed = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

PassedSignals::PassedSignals() {
  sigset_t set;
  sigemptyset(&set);
  // A blocked signal is kept although it is ignored.
  for (const int signal : kPassed)
    if (!is_ignored(signal)) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  // If it is ignored, the kernel reaps the child.
  struct sigaction reap {};
  reap.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &reap, nullptr);
  sigprocmask(SIG_BLOCK, &set, &before_);
  // What this process says may find no reader, and must not end it before its work is done.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_);
  descriptor_ = Descriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (descriptor_.get() < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<signalfd_siginfo> PassedSignals::next() const {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return info;
}

void PassedSignals::restore() const noexcept {
  sigaction(SIGPIPE, &pipe_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void PassedSignals::stop_here() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  sigset_t before;
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &set, &before);  // it stops here
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace holdfast::cli
