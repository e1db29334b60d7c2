// The terminal of `holdfast top`, by ncurses: draws the view, reads keys, and gives the terminal back as it was.
#pragma once

#include <termios.h>

#include <cstddef>
#include <memory>
#include <string>

#include "look/top_view.h"

namespace holdfast::cli {

struct TopPress {
  TopKey key = TopKey::none;
  std::string text;
};

class TopScreen {
 public:
  /// Takes the terminal of standard input and output. Throws a sentence if it cannot be driven.
  explicit TopScreen(bool colours);
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  /// `message`: in place of the last line; empty: keys.
  void draw(TopView& view, const std::string& message);
  /// The next key that was typed; false if there is none.
  bool read(TopPress& press);
  /// Rows of a table that fit.
  std::size_t page() const noexcept;
  /// The terminal has another size.
  void resize();
  /// Gives the terminal back, for as long as the process is stopped; takes it again.
  void leave();
  void come_back();
  /// The process will end by this signal.
  void end_by(int signal) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace holdfast::cli
