// What the command says on standard error, and its end. A message is written at once, so that processes do not mix
// theirs.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "base/status.h"

namespace holdfast::cli {

/// As of grep: 1 is the answer no, 2 is trouble, a wrong command line included.
namespace exit_status {
inline constexpr int kYes = 0;
inline constexpr int kNo = 1;
inline constexpr int kTrouble = 2;
}  // namespace exit_status

/// Thrown to end the command, when everything is said.
struct Exit {
  int status;
};

/// "SPEAKER: <text>"
void say_as(std::string_view speaker, std::string_view text);

/// "holdfast: <text>"
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
}

/// Says why the answer is no, and returns that exit status.
template <class... Arguments>
int say_no(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
  return exit_status::kNo;
}

/// Says what the trouble is, and ends the command.
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
  throw Exit{exit_status::kTrouble};
}

/// Returns the value. Without one, ends the command with the sentence.
template <class T>
T value_or_fail(Expected<T> outcome) {
  if (!outcome) fail("{}", outcome.status().message);
  return std::move(*outcome);
}

}  // namespace holdfast::cli
