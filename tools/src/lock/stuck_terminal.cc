#include "lock/stuck_terminal.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

#include "cli/signals.h"

namespace holdfast::cli {

namespace {

constexpr unsigned kLookSeconds = 1;

// The handler for SIGALRM reads these variables, so they are set before the handler is installed.
termios modes_before{};
volatile std::sig_atomic_t signal_that_ends = 0;

int pending_end() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return 0;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    if (::sigismember(&pending, number) == 1) return number;
  return 0;
}

// Async-signal-safe.
extern "C" void look_whether_to_end(int /*number*/) {
  const int error = errno;
  const int number = signal_that_ends != 0 ? static_cast<int>(signal_that_ends) : pending_end();
  if (number != 0 && !terminal_takes_output()) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
    die_by(number);
  }
  ::alarm(kLookSeconds);
  errno = error;
}

}  // namespace

bool terminal_takes_output() noexcept {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0 && (out.revents & (POLLERR | POLLHUP)) == 0;
}

StuckTerminal::StuckTerminal(const termios& before, int ended_by) noexcept {
  modes_before = before;
  signal_that_ends = ended_by;
  struct sigaction action {};
  action.sa_handler = look_whether_to_end;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(kLookSeconds);
}

StuckTerminal::~StuckTerminal() { ::alarm(0); }

}  // namespace holdfast::cli
