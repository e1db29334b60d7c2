// Names of dictionaries that share a file of names (world/name_file.h).
#pragma once

#include <string>

#include "world/name_file.h"
#include "world/name_use.h"

namespace holdfast::test {

/// Returns the name of a different dictionary that uses the same file of names.
inline std::string sibling_name(const std::string& name) {
  const auto file_of = [](const std::string& one) {
    return (name_byte(one + ".dict", 0) >> kNameInodeBits) % kNameFiles;
  };
  int number = 0;
  while (file_of("n" + std::to_string(number)) != file_of(name)) ++number;
  return "n" + std::to_string(number);
}

}  // namespace holdfast::test
