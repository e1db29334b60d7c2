// Calls on a whole dictionary: check the arguments, call one thing, map the result.
#include "capi/handle.h"
#include "dict/names.h"
#include "dict/packed_keys.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

int outcome_of(const PackedKeys& packed, holdfast_value& keys, std::uint32_t& count) noexcept {
  keys.size = packed.size();
  count = packed.count();
  return packed.fit() ? static_cast<int>(HOLDFAST_OK) : fail(Code::buffer, "");
}

int scan(holdfast_dict* dict, std::uint64_t& cursor, std::uint32_t count, std::string_view prefix, Listed listed,
         holdfast_value& keys, std::uint32_t& found) {
  if (count == 0) return fail(Code::invalid, "bad count: expected 1 or more");
  std::uint64_t next = cursor;
  PackedKeys packed(keys.data, keys.capacity);
  const Code code = unwrap(dict).scan(next, count, prefix, listed, packed);
  if (code != Code::ok) return outcome(code, unwrap(dict));
  const int given = outcome_of(packed, keys, found);
  if (given == HOLDFAST_OK) cursor = next;
  return given;
}

}  // namespace

int holdfast_flush_all(holdfast_dict* dict) {
  return guarded([&] { return outcome(unwrap(dict).flush_all(), unwrap(dict)); });
}

int holdfast_flush_expired(holdfast_dict* dict, uint32_t max, uint32_t* count) {
  return guarded(
      [&]() -> int { return outcome(unwrap(dict).flush_expired(max == 0 ? ~0U : max, *count), unwrap(dict)); });
}

int holdfast_keys(holdfast_dict* dict, uint32_t max, holdfast_value* keys, uint32_t* count) {
  return guarded([&] {
    PackedKeys packed(keys->data, keys->capacity);
    const Code code = unwrap(dict).keys(max, packed);
    return code == Code::ok ? outcome_of(packed, *keys, *count) : outcome(code, unwrap(dict));
  });
}

int holdfast_scan(holdfast_dict* dict, uint64_t* cursor, uint32_t count, const char* prefix, size_t prefix_length,
                  holdfast_value* keys, uint32_t* found) {
  return guarded([&] { return scan(dict, *cursor, count, {prefix, prefix_length}, Listed::live, *keys, *found); });
}

int holdfast_scan_locks(holdfast_dict* dict, uint64_t* cursor, uint32_t count, const char* prefix, size_t prefix_length,
                        holdfast_value* keys, uint32_t* found) {
  return guarded([&] { return scan(dict, *cursor, count, {prefix, prefix_length}, Listed::in_use, *keys, *found); });
}

int holdfast_list(holdfast_value* names, uint32_t* count) {
  return guarded([&]() -> int {
    auto world = World::current();
    if (!world) return fail(world.status());
    const auto found = dictionary_names(**world);
    if (!found) return fail(found.status());
    PackedKeys packed(names->data, names->capacity);
    for (const std::string& name : *found) packed.add(name);
    return outcome_of(packed, *names, *count);
  });
}

int holdfast_dict_stats(holdfast_dict* dict, holdfast_stats* stats) {
  return guarded([&]() -> int {
    DictionaryStats counts{};
    const Code code = unwrap(dict).stats(counts);
    *stats = {.entries = counts.entries,
              .bytes_used = counts.bytes_used,
              .bytes_free = counts.bytes_free,
              .hits = counts.hits,
              .misses = counts.misses,
              .evictions = counts.evictions,
              .expirations = counts.expirations,
              .repairs = counts.repairs,
              .mutex_waits = counts.mutex_waits,
              .lock_waits = counts.lock_waits,
              .lock_wakes = counts.lock_wakes,
              .lock_reserved_ms = counts.lock_reserved_ms,
              .lives_unknown = counts.lives_unknown,
              .words_mended = counts.words_mended};
    return outcome(code, unwrap(dict));
  });
}

uint64_t holdfast_capacity(holdfast_dict* dict) {
  return guarded_or<uint64_t>(0, [&] { return unwrap(dict).capacity(); });
}

uint64_t holdfast_largest_value(holdfast_dict* dict) {
  return guarded_or<uint64_t>(0, [&] { return unwrap(dict).value_max(); });
}

uint64_t holdfast_free_space(holdfast_dict* dict) {
  return guarded_or<uint64_t>(0, [&] { return unwrap(dict).free_space(); });
}
