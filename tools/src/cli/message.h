// Messages of the command: one line on standard error in one write, so that processes do not mix theirs.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace holdfast::cli {

/// "holdfast: <text>"
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string line = "holdfast: " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  // There is no other place to tell of a failure.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace holdfast::cli
