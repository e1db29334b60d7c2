// The dictionaries of a world, by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

class World;

/// The name of the dictionary with that file; nothing if it is the file of something else.
std::optional<std::string> dictionary_of_file(std::string_view file);

/// The names in order. One that is made or removed meanwhile may be among them. Opens none.
Expected<std::vector<std::string>> dictionary_names(World& world);

}  // namespace holdfast
