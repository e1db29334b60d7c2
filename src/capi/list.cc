// Lists: check the arguments, call one thing, map the result.
#include "dict/list.h"

#include "capi/handle.h"
#include "capi/value.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

int check_end(int end) noexcept {
  return end == HOLDFAST_LEFT || end == HOLDFAST_RIGHT ? HOLDFAST_OK
                                                       : fail(Code::invalid, "bad end: expected left (0) or right (1)");
}

}  // namespace

int holdfast_push(holdfast_dict* dict, const char* key, size_t key_length, int end, int type, const char* data,
                  size_t length, double number, uint32_t* count) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_end(end)) return bad;
    ValueIn value{};
    if ((type != HOLDFAST_NUMBER && type != HOLDFAST_STRING) || !to_value(type, data, length, number, 0, value))
      return fail(Code::invalid, "bad value type: expected number or string");
    return outcome(unwrap(dict).push({key, key_length}, static_cast<End>(end), value, *count), unwrap(dict));
  });
}

int holdfast_pop(holdfast_dict* dict, const char* key, size_t key_length, int end, holdfast_value* value) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_end(end)) return bad;
    ValueOut out = room_in(*value);
    const Code code = unwrap(dict).pop({key, key_length}, static_cast<End>(end), out);
    value->type = HOLDFAST_NIL;
    if (code == Code::ok || code == Code::buffer) from_value(out, *value);
    return outcome(code, unwrap(dict));
  });
}

int holdfast_llen(holdfast_dict* dict, const char* key, size_t key_length, uint32_t* count) {
  return guarded([&]() -> int {
    *count = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(unwrap(dict).list_length({key, key_length}, *count), unwrap(dict));
  });
}
