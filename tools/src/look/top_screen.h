// The terminal of `holdfast top`, using ncurses: draws the view, reads keys, and restores the terminal.
#pragma once

#include <termios.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "look/top_view.h"

namespace holdfast::cli {

struct TopPress {
  TopKey key = TopKey::none;
  std::string text;
};

class TopScreen {
 public:
  /// Takes over the terminal of standard input and output. Throws a message if it cannot use the terminal.
  explicit TopScreen(bool colours);
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  /// The last line has the user's prompt, a remark or, if there is none of these, the keys. The messages have a line of
  /// their own.
  void draw(TopView& view, const std::vector<std::string>& messages);
  /// Reads the next key. Returns false if there is none.
  bool read(TopPress& press);
  /// Returns the number of table rows that fit.
  std::size_t page() const noexcept;
  /// Adapts to a new terminal size.
  void resize();
  /// Restores the terminal while the process is stopped, then takes it over again.
  void leave();
  void come_back();
  /// Announces that this signal will end the process.
  void end_by(int signal) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace holdfast::cli
