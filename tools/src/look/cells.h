// Table cells that several commands use, for locks, dictionaries and processes.
#pragma once

#include <string>

#include "cli/output.h"
#include "inspect/processes.h"

namespace holdfast::cli {

inline constexpr double kFull = 0.9;  // dictionaries at least this full are highlighted

inline std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

inline Style style_of(const inspect::Process& process) {
  if (process.life == inspect::Life::dead) return Style::red;
  const bool is_unusual = process.life == inspect::Life::stopped || process.life == inspect::Life::ended;
  return is_unusual ? Style::yellow : Style::plain;
}

}  // namespace holdfast::cli
