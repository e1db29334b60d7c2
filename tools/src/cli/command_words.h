// A command line as CLI11 is given it, and what CLI11 says against it in the words of the other messages.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "base/name.h"

namespace holdfast::cli {

/// Writes each "--name=value" as two words, since CLI11 takes the word behind "--name=" for its value. The value of
/// another option stays as it is. Returns what is wrong, or nothing.
inline std::string split_values(const CLI::App& app, std::vector<std::string>& words) {
  const auto takes_value = [&](const std::string& name) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    return option != nullptr && option->get_items_expected_max() > 0;
  };
  std::vector<std::string> split;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    split.push_back(word);
    if (equals == std::string::npos) {
      if (word.starts_with('-') && takes_value(word) && i + 1 < words.size()) split.push_back(words[++i]);
      continue;
    }
    if (app.get_option_no_throw(name) == nullptr) continue;  // reported as unknown
    const std::string value = word.substr(equals + 1);
    if (!takes_value(name)) return fmt::format("unexpected {}: {} takes no value", quote(word), name);
    split.back() = name;
    split.push_back(value);
  }
  words = std::move(split);
  return {};
}

/// What is wrong with a command line. `app` has the option that `error` is about.
inline std::string in_words(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  const bool has_no_value = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (!has_no_value || colon == std::string::npos) return text;
  const std::string name = text.substr(0, colon);
  const CLI::Option* const option = app.get_option_no_throw(name);
  return fmt::format("{}: no {} was given", name, option != nullptr ? option->get_type_name() : "value");
}

/// For an option that takes the path of a file: without this check an empty path would count as none.
inline std::string refuse_no_file(const std::string& path) { return path.empty() ? "no file was named" : ""; }

}  // namespace holdfast::cli
