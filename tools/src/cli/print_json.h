// Prints JSON to standard output.
#pragma once

#include "cli/output.h"
#include "inspect/json.h"

namespace holdfast::cli {

/// Prints JSON, which is indented for people, and on one line for programs.
inline void print_json(const inspect::Json& json, const Output& output) {
  print(inspect::to_text(json, output.columns ? inspect::Layout::indented : inspect::Layout::line) + "\n");
}

}  // namespace holdfast::cli
