// Dictionaries declared in advance: --dict NAME=SIZE[:largest=VALUE] and $HOLDFAST_DICTS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/status.h"

namespace holdfast::cli {

/// A declaration of a size that a dictionary can have.
Expected<Declaration> read_declaration(std::string_view text);

/// $HOLDFAST_DICTS, empty when it is not set.
Expected<std::vector<Declaration>> environment_declarations();

/// Both lists; for a name in both, that of `options` counts. A name that is twice in one list must have the same size
/// and largest value.
Expected<std::vector<Declaration>> merge_declarations(const std::vector<Declaration>& environment,
                                                      const std::vector<Declaration>& options);

/// Writes them to $HOLDFAST_DICTS, for the library in this process and its children.
void export_declarations(const std::vector<Declaration>& declarations);

/// Enters the world and opens each, so that they live as long as this process does.
Status open_declarations(const std::vector<Declaration>& declarations);

}  // namespace holdfast::cli
