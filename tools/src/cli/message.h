// Messages of the command: one line on standard error in one write, so that processes do not mix theirs.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace holdfast::cli {

/// "SPEAKER: <text>"
void say_as(std::string_view speaker, std::string_view text);

/// "holdfast: <text>"
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_as("holdfast", fmt::vformat(format, fmt::make_format_args(arguments...)));
}

}  // namespace holdfast::cli
