// The dictionaries that are opened in advance: those of --dict NAME=SIZE[:largest=VALUE] and of $HOLDFAST_DICTS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/status.h"

namespace holdfast::cli {

/// Parses a declaration, and checks that a dictionary can have its size.
Expected<Declaration> read_declaration(std::string_view text);

/// Parses $HOLDFAST_DICTS. Returns an empty list if the variable is not set.
Expected<std::vector<Declaration>> environment_declarations();

/// Merges the lists. If a name is in both lists, `options` takes precedence. If a name occurs twice in the same list,
/// both declarations must have the same size and largest value.
Expected<std::vector<Declaration>> merge_declarations(const std::vector<Declaration>& environment,
                                                      const std::vector<Declaration>& options);

/// Writes the declarations to $HOLDFAST_DICTS, for the library in this process and its children.
void export_declarations(const std::vector<Declaration>& declarations);

/// Enters the world and opens each dictionary, so that the dictionaries live as long as this process.
Status open_declarations(const std::vector<Declaration>& declarations);

}  // namespace holdfast::cli
