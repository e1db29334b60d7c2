// A terminal that takes nothing, stopped by Ctrl-S or read by nobody, keeps a writer in write(2).
#pragma once

#include <termios.h>

namespace holdfast::cli {

/// A write to standard output would not wait.
bool terminal_takes_output() noexcept;

/// ncurses begins a write again after every signal, so that nothing but KILL would end a process on such a terminal.
/// While this lives, INT, TERM, HUP and QUIT end it there, within a second: with the terminal's modes as they
/// were, and by that signal. They must be blocked. One at a time; it uses ALRM.
class StuckTerminal {
 public:
  /// `ended_by`: the signal that ends the process already; 0: none yet.
  explicit StuckTerminal(const termios& before, int ended_by = 0) noexcept;
  ~StuckTerminal();
  StuckTerminal(const StuckTerminal&) = delete;
  StuckTerminal& operator=(const StuckTerminal&) = delete;
};

}  // namespace holdfast::cli
