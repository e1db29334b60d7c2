#include "lock/wait_notice.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "cli/message.h"
#include "cli/signals.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

void write_out(std::string_view text) noexcept {
  if (accepts_messages(STDERR_FILENO, 0)) [[maybe_unused]]
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// Async-signal-safe.
extern "C" void end_the_line(int number) {
  write_out("\n");
  die_by(number);
}

using Handler = void (*)(int);

/// Replaces the handler of each signal that would end this process. Skips ignored signals.
void handle_ends(Handler before, Handler after) noexcept {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != before) continue;
    action.sa_handler = after;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

bool accepts_messages(int output, int wait_ms) noexcept {
  pollfd out{output, POLLOUT, 0};
  return ::poll(&out, 1, wait_ms) == 1 && (out.revents & POLLOUT) != 0;
}

// Prints to standard output, as flock(1) does. If nobody reads the output, this must not prolong the hold.
void report(const LockOptions& options, const std::string& what) {
  const int output = options.is_flock() ? STDOUT_FILENO : STDERR_FILENO;
  if (!options.verbose || !accepts_messages(output, 0)) return;
  if (!options.is_flock()) return say("{}", what);
  fmt::print("flock: {}\n", what);
  std::fflush(stdout);
}

WaitNotice::WaitNotice(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) == 1) {}

double WaitNotice::due_in(double waited) const noexcept {
  return enabled_ ? next_ - waited : std::numeric_limits<double>::infinity();
}

void WaitNotice::show(double waited, const std::vector<Part>& what) {
  constexpr std::size_t kUsualWidth = 80;
  if (due_in(waited) > 0) return;
  next_ = waited + 1;
  if (!visible_) {
    std::setlocale(LC_CTYPE, "");
    handle_ends(SIG_DFL, end_the_line);
  }
  visible_ = true;
  const std::size_t width = line_width(STDERR_FILENO);
  // Leave the last column free, because some terminals begin a new line after it.
  const std::size_t room = std::max<std::size_t>(width != 0 ? width : kUsualWidth, 2) - 1;
  std::vector<Part> parts{{fmt::format("waiting for {}: ", inspect::duration_in_words(waited))}};
  parts.insert(parts.end(), what.begin(), what.end());
  const std::string named = "holdfast: " + line_of(parts, 0);
  write_out(kClearLine + (width_of(named) <= room ? named : line_of(parts, room)));
}

void WaitNotice::end(const char* text) {
  if (!visible_) return;
  write_out(text);
  handle_ends(end_the_line, SIG_DFL);
  visible_ = false;
}

}  // namespace holdfast::cli
