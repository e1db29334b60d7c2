// What the command says to a person: one line on standard error, in one write so that processes do not mix theirs.
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
  // Nobody is left to tell when standard error cannot be written.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace holdfast::cli
