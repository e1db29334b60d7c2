// Which runtime directory the environment names. A header only: the command says it of other users, too.
#pragma once

#include <sys/types.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "world/world_file.h"

namespace holdfast {

/// Stands in HOLDFAST_DIR for kLayoutVersion, so that programs of two layouts have a world each.
inline constexpr std::string_view kLayoutPlaceholder = "@layout@";

inline std::string with_layout(std::string path) {
  const std::string number = std::to_string(kLayoutVersion);
  for (std::size_t at = 0; (at = path.find(kLayoutPlaceholder, at)) != std::string::npos; at += number.size()) {
    path.replace(at, kLayoutPlaceholder.size(), number);
  }
  return path;
}

inline std::string default_directory(uid_t user) { return "/dev/shm/holdfast-" + std::to_string(user); }

/// $HOLDFAST_DIR, else that of the user.
inline std::string directory_from_environment(uid_t user) {
  const char* const chosen = ::secure_getenv("HOLDFAST_DIR");
  return chosen != nullptr && *chosen != '\0' ? with_layout(chosen) : default_directory(user);
}

}  // namespace holdfast
