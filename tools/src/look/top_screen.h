// Controls the terminal of `holdfast top`, with ncurses: draws the view, reads keys, and restores the terminal.
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

  /// Draws the view. The last line shows the prompt, a remark or, if there is neither, the keys. Messages have separate
  /// lines.
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
  /// Notes that this signal will end the process.
  void end_by(int signal) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace holdfast::cli
