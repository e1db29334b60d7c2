// Converts values of the C API into values of the core.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "capi/handle.h"
#include "dict/shard.h"
#include "holdfast.h"

namespace holdfast::capi {

/// Converts a value. Returns false if the type cannot be stored.
inline bool to_value(int type, const char* data, std::size_t length, double number, std::uint32_t flags,
                     ValueIn& value) noexcept {
  if (type == HOLDFAST_NUMBER) {  // checked first, which saves a comparison for the most frequent type
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

inline void from_value(const ValueOut& out, holdfast_value& value) noexcept {
  value.flags = out.flags;
  switch (out.type) {
    case EntryType::number:
      value.type = HOLDFAST_NUMBER;
      value.number = std::bit_cast<double>(out.bits);
      break;
    case EntryType::string:
      value.type = HOLDFAST_STRING;
      value.size = out.size;
      break;
    case EntryType::table:
      value.type = HOLDFAST_TABLE;
      value.size = out.size;
      break;
    default:
      value.type = HOLDFAST_BOOLEAN;
      value.number = out.bits != 0 ? 1.0 : 0.0;
  }
}

/// Describes the caller's buffer, to which a value is copied.
inline ValueOut room_in(const holdfast_value& value) noexcept {
  ValueOut out;  // the other fields are set where they matter
  out.wanted = 0;
  out.buffer = value.data;
  out.capacity = value.capacity;
  return out;
}

inline int give(Code code, holdfast_dict* dict, const ValueOut& out, holdfast_value& value) noexcept {
  if (code == Code::ok) [[likely]] {
    from_value(out, value);
    return HOLDFAST_OK;
  }
  value.type = HOLDFAST_NIL;
  if (code == Code::buffer) from_value(out, value);
  return outcome(code, unwrap(dict));
}

}  // namespace holdfast::capi
