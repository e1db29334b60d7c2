// Converts values of the C API into values of the core.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "dict/shard.h"
#include "holdfast.h"

namespace holdfast::capi {

/// Converts a value. Returns false if the type cannot be stored.
inline bool to_value(int type, const char* data, std::size_t length, double number, std::uint32_t flags,
                     ValueIn& value) noexcept {
  if (type == HOLDFAST_NUMBER) {  // first, to save a comparison for the most frequent type
    value = {EntryType::number, flags, std::bit_cast<std::uint64_t>(number), nullptr, 8};
    return true;
  }
  switch (type) {
    case HOLDFAST_BOOLEAN:
      value = {EntryType::boolean, flags, number != 0.0 ? 1U : 0U, nullptr, 8};
      return true;
    case HOLDFAST_STRING:
      value = {EntryType::string, flags, 0, data, length};
      return true;
    case HOLDFAST_TABLE:
      value = {EntryType::table, flags, 0, data, length};
      return true;
    default:
      return false;
  }
}

}  // namespace holdfast::capi
