#include "lock/passed_signals.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>

namespace holdfast::cli {

namespace {

constexpr std::array kPassed = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

volatile std::sig_atomic_t is_continued = 0;

sigset_t set_of(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

void change_mask(int how, int signal, sigset_t* before = nullptr) {
  const sigset_t set = set_of(signal);
  sigprocmask(how, &set, before);
}

/// Discards the signal if it is pending.
void discard(int signal) {
  const sigset_t set = set_of(signal);
  const timespec at_once{};
  sigtimedwait(&set, nullptr, &at_once);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

PassedSignals::PassedSignals() {
  sigset_t set;
  sigemptyset(&set);
  // Do not block ignored signals, because a blocked signal becomes pending even if it is ignored.
  for (const int signal : kPassed)
    if (!is_ignored(signal)) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  // If CHLD were ignored, the kernel itself would reap the child.
  struct sigaction reap {};
  reap.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &reap, nullptr);
  sigprocmask(SIG_BLOCK, &set, &before_);
  // Ignore PIPE, because a message that nobody reads must not end this process before its work is done.
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

// A stop signal discards a pending CONT, and CONT discards a pending stop signal. So CONT is delivered and recorded
// before TSTP is raised. Otherwise, an early CONT could get lost, for example from a program that stops this process
// and immediately continues it.
bool PassedSignals::stop_here() noexcept {
  is_continued = 0;
  struct sigaction note {};
  note.sa_handler = [](int) { is_continued = 1; };
  sigaction(SIGCONT, &note, nullptr);  // never restored, because restoring the default would also discard a CONT
  sigset_t before;
  change_mask(SIG_UNBLOCK, SIGCONT, &before);
  raise(SIGTSTP);  // still blocked, so it only becomes pending
  if (is_continued == 0)
    change_mask(SIG_UNBLOCK, SIGTSTP);  // stops this process, unless CONT has arrived by now
  else
    discard(SIGTSTP);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return is_continued != 0;
}

}  // namespace holdfast::cli
