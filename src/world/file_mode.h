// Modes of files, for sentences.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace holdfast {

/// As chmod takes it: "0700".
inline std::string octal(std::uint32_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

}  // namespace holdfast
