// Dictionaries that are opened in advance: --dict NAME=SIZE[:largest=VALUE] and $HOLDFAST_DICTS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/status.h"

namespace holdfast::cli {

/// Parses a declaration; its size must be one that a dictionary can have.
Expected<Declaration> read_declaration(std::string_view text);

/// Parses $HOLDFAST_DICTS; empty if it is not set.
Expected<std::vector<Declaration>> environment_declarations();

/// Merges both lists; `options` takes precedence for a name in both. If a name is twice in one list, both must have the
/// same size and largest value.
Expected<std::vector<Declaration>> merge_declarations(const std::vector<Declaration>& environment,
                                                      const std::vector<Declaration>& options);

/// Writes them to $HOLDFAST_DICTS, for the library in this process and its children.
void export_declarations(const std::vector<Declaration>& declarations);

/// Enters the world and opens each dictionary, so that they live as long as this process.
Status open_declarations(const std::vector<Declaration>& declarations);

}  // namespace holdfast::cli
