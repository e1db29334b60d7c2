// What is said of an option that a command does not have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "base/name.h"

namespace holdfast::cli {

/// What was typed where CLI11 left `word`: of "-foo" with an option -f it takes that, and leaves "-oo".
inline std::string as_typed(const std::vector<std::string>& arguments, const std::string& word) {
  const auto is_end_of = [&](const std::string& argument) {
    return argument.size() > word.size() && argument.front() == '-' && argument[1] != '-' &&
           argument.ends_with(word.substr(1));
  };
  if (std::find(arguments.begin(), arguments.end(), word) != arguments.end()) return word;
  const auto found = std::find_if(arguments.begin(), arguments.end(), is_end_of);
  return found != arguments.end() ? *found : word;
}

inline std::string unknown_option(const CLI::App& app, const std::string& word) {
  std::string accepted;
  for (const CLI::Option* option : app.get_options()) accepted += (accepted.empty() ? "" : ", ") + option->get_name();
  return fmt::format("unknown option {}; accepted: {}", quote(word), accepted);
}

}  // namespace holdfast::cli
