// The line on a terminal which says that `holdfast lock` is waiting, and for which process. The line is rewritten in
// place every second. A terminal that accepts no output does not delay the wait.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/message.h"
#include "cli/output.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns whether the output accepts a message without blocking, now or within `wait_ms`.
bool accepts_messages(int output, int wait_ms) noexcept;

/// Prints a message, but gives up after a second if the output accepts no more text. Otherwise, a process that has a
/// lock, or that collects its signals, might never end.
template <class... Arguments>
void say_in_time(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  constexpr int kMessageMs = 1000;
  if (accepts_messages(STDERR_FILENO, kMessageMs)) say(format, std::forward<Arguments>(arguments)...);
}

/// Prints the message if --verbose was given.
void report(const LockOptions& options, const std::string& what);

class WaitNotice {
 public:
  /// Shows nothing if `wanted` is false, or if standard error is not a terminal.
  explicit WaitNotice(bool wanted);
  ~WaitNotice() { clear(); }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  /// Returns the number of seconds until the line is due, or infinity if it will never be due. `waited`: the number of
  /// seconds that the wait has taken so far.
  double due_in(double waited) const noexcept;
  /// Shows the line, elided to the width of the terminal. If INT, TERM, HUP or QUIT ends the process while the line is
  /// visible, later output begins on a new line.
  void show(double waited, const std::vector<Part>& what);
  /// Removes the line from the terminal.
  void clear() { end(kClearLine); }
  /// Leaves the line visible. Later output begins on a new line.
  void leave() { end("\n"); }

 private:
  static constexpr const char* kClearLine = "\r\x1b[K";
  void end(const char* text);

  bool enabled_;
  bool visible_ = false;
  double next_ = 1;  // the line is due after this many seconds of waiting
};

}  // namespace holdfast::cli
