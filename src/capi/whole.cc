// What concerns a dictionary as a whole: check the arguments, call one thing, map the result.
#include <string>
#include <string_view>

#include "capi/handle.h"

using holdfast::Code;
using holdfast::capi::fail;
using holdfast::capi::guarded;
using holdfast::capi::outcome;
using holdfast::capi::unwrap;

namespace {

thread_local std::string packed_keys;

}  // namespace

int holdfast_flush_all(holdfast_dict* dict) { return outcome(unwrap(dict).flush_all(), unwrap(dict)); }

int holdfast_flush_expired(holdfast_dict* dict, uint32_t max, uint32_t* count) {
  return outcome(unwrap(dict).flush_expired(max == 0 ? ~0U : max, *count), unwrap(dict));
}

int holdfast_keys(holdfast_dict* dict, uint32_t max, const char** packed, size_t* bytes, uint32_t* count) {
  return guarded([&] {
    const int code = outcome(unwrap(dict).keys(max, packed_keys, *count), unwrap(dict));
    *packed = packed_keys.data();
    *bytes = packed_keys.size();
    return code;
  });
}

int holdfast_scan(holdfast_dict* dict, uint64_t* cursor, uint32_t count, const char* prefix, size_t prefix_length,
                  const char** packed, size_t* bytes, uint32_t* found) {
  if (count == 0) return fail(Code::invalid, "bad count: expected 1 or more");
  return guarded([&] {
    const std::string_view beginning(prefix, prefix_length);
    const int code = outcome(unwrap(dict).scan(*cursor, count, beginning, packed_keys, *found), unwrap(dict));
    *packed = packed_keys.data();
    *bytes = packed_keys.size();
    return code;
  });
}

int holdfast_dict_stats(holdfast_dict* dict, holdfast_stats* stats) {
  holdfast::DictionaryStats counts{};
  const Code code = unwrap(dict).stats(counts);
  *stats = {counts.entries,   counts.bytes_used,  counts.bytes_free, counts.hits,       counts.misses,
            counts.evictions, counts.expirations, counts.repairs,    counts.mutex_waits};
  return outcome(code, unwrap(dict));
}

uint64_t holdfast_capacity(holdfast_dict* dict) { return unwrap(dict).capacity(); }

uint64_t holdfast_free_space(holdfast_dict* dict) { return unwrap(dict).free_space(); }
