// What is said of an option that a command does not have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "base/name.h"

namespace holdfast::cli {

inline std::string unknown_option(const CLI::App& app, const std::string& word) {
  std::string accepted;
  for (const CLI::Option* option : app.get_options()) accepted += (accepted.empty() ? "" : ", ") + option->get_name();
  return fmt::format("unknown option {}; accepted: {}", quote(word), accepted);
}

}  // namespace holdfast::cli
