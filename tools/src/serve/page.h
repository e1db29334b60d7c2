// The web page: the files in tools/src/serve/page, which are compiled into the program.
#pragma once

#include <string_view>

namespace holdfast::serve {

struct PageFile {
  const char* path;
  const char* type;
  std::string_view text;
};

/// Returns the file with this path, or null if there is none.
const PageFile* find_page(std::string_view path) noexcept;

}  // namespace holdfast::serve
