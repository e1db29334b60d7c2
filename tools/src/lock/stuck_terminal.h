// Handles a terminal that accepts no output, because of Ctrl-S or because nobody reads it, and thus blocks a writer in
// write(2).
#pragma once

#include <termios.h>

namespace holdfast::cli {

/// Returns whether a write to standard output would not block.
bool terminal_takes_output() noexcept;

/// ncurses restarts a write after every signal, so only KILL would end a process on such a terminal. While this object
/// lives, INT, TERM, HUP and QUIT end the process within a second, by that signal and with the terminal's modes
/// restored. These signals must be blocked. Only one object may exist at a time, because it uses SIGALRM.
class StuckTerminal {
 public:
  /// `ended_by`: the signal that is ending the process; 0: none yet.
  explicit StuckTerminal(const termios& before, int ended_by = 0) noexcept;
  ~StuckTerminal();
  StuckTerminal(const StuckTerminal&) = delete;
  StuckTerminal& operator=(const StuckTerminal&) = delete;
};

}  // namespace holdfast::cli
