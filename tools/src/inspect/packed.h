// Reads packed lists of the C ABI, such as the names of dictionaries or keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "holdfast.h"

namespace holdfast::inspect {

/// Calls `call(holdfast_value*, std::uint32_t*)` repeatedly, until the buffer is large enough. Returns the last code.
template <class Call>
int unpack(std::vector<std::string>& texts, Call&& call) {
  constexpr std::size_t kRoom = 4096;
  std::string room(kRoom, '\0');
  holdfast_value packed{};
  std::uint32_t count = 0;
  int code = HOLDFAST_BUFFER;
  while (code == HOLDFAST_BUFFER) {
    room.resize(std::max(room.size(), packed.size));
    packed.data = room.data();
    packed.capacity = room.size();
    code = call(&packed, &count);
  }
  if (code != HOLDFAST_OK) return code;
  for (std::size_t at = 0; at < packed.size;) {
    std::uint32_t length = 0;
    std::memcpy(&length, packed.data + at, sizeof length);
    texts.emplace_back(packed.data + at + sizeof length, length);
    at += sizeof length + length;
  }
  return HOLDFAST_OK;
}

}  // namespace holdfast::inspect
