// Prints messages on standard error, and ends the command. Each message is a single write, so that messages from
// different processes do not mix.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace holdfast::cli {

/// The exit statuses are those of grep: 1 is a negative answer; 2 is an error, including a wrong command line.
namespace exit_status {
inline constexpr int kYes = 0;
inline constexpr int kNo = 1;
inline constexpr int kTrouble = 2;
}  // namespace exit_status

/// Thrown to end the command. Before it ends, it prints the message, unless the message is empty.
struct Exit {
  int status;
  std::string message = {};
};

/// Prints "SPEAKER: <text>".
void say_as(std::string_view speaker, std::string_view text);

/// Adds the subject to all later messages of this process: "SPEAKER: SUBJECT: <text>".
void say_about(std::string subject);

/// Prints "holdfast: <text>".
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
}

/// Prints the reason for a negative answer, and returns the exit status for a negative answer.
template <class... Arguments>
int say_no(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
  return exit_status::kNo;
}

/// Ends the command with an error.
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Exit{exit_status::kTrouble, fmt::vformat(format, fmt::make_format_args(arguments...))};
}

/// Returns the value, or ends the command with the error instead.
template <class T>
T value_or_fail(Expected<T> outcome) {
  if (!outcome) fail("{}", outcome.status().message);
  return std::move(*outcome);
}

}  // namespace holdfast::cli
