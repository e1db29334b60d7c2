// Calls for a whole dictionary, and its statistics. Each function checks its arguments, makes one call to the core, and
// converts the result.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "capi/handle.h"
#include "dict/registry.h"
#include "dict/statistics.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

static_assert(HOLDFAST_BUCKETS == kBuckets && sizeof holdfast_histogram::buckets == kBuckets * sizeof(uint64_t));
static_assert(HOLDFAST_CONTENDED_KEY_MAX == kContendedKeyMax && sizeof holdfast_contended::key == kContendedKeyMax);
static_assert(HOLDFAST_HELD_SEMAPHORE + 1 == kHeldKinds);
static_assert(HOLDFAST_TIME_HELD + 1 == kTimeKinds && HOLDFAST_TIME_HELD == static_cast<int>(TimeKind::held));

namespace {

int scan(holdfast_dict* dict, std::uint64_t& cursor, std::uint32_t count, std::string_view prefix, Listed listed,
         holdfast_value& keys, std::uint32_t& found) {
  if (count == 0) return fail(Code::invalid, "bad count: expected 1 or more");
  std::uint64_t next = cursor;
  PackedKeys packed(keys.data, keys.capacity);
  const Code code = unwrap(dict).scan(next, count, prefix, listed, packed);
  if (code != Code::ok) return outcome(code, unwrap(dict));
  const int given = outcome_of_keys(packed, keys, found);
  if (given == HOLDFAST_OK) cursor = next;
  return given;
}

double seconds(std::uint64_t ns) noexcept { return static_cast<double>(ns) / 1e9; }

/// Checks the size of the caller's struct. A struct of a later header may be larger; fields that this library does not
/// know become 0.
int check_size(const char* name, std::size_t given, std::size_t known) noexcept {
  return given >= known && given <= 64 * known
             ? HOLDFAST_OK
             : fail_number(name, given, ("at least " + std::to_string(known)).c_str());
}

double begin_of(std::uint32_t bucket) noexcept { return bucket == 0 ? 0 : seconds(end_of_bucket(bucket - 1)); }

void fill(holdfast_contended& out, const Contended& found) noexcept {
  out = {.waits = found.waits,
         .timeouts = found.timeouts,
         .refused = found.refused,
         .wait_time = seconds(found.wait_ns),
         .kind = static_cast<std::uint32_t>(found.kind),
         .key_length = found.key_length,
         .key = {}};
  std::memcpy(out.key, found.key.data(), std::min<std::size_t>(found.key_length, sizeof out.key));
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
    return code == Code::ok ? outcome_of_keys(packed, *keys, *count) : outcome(code, unwrap(dict));
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
    return outcome_of_keys(packed, *names, *count);
  });
}

int holdfast_dict_stats(holdfast_dict* dict, holdfast_stats* stats) {
  return guarded([&] { return outcome(unwrap(dict).stats(*stats), unwrap(dict)); });
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

int holdfast_dict_histogram(holdfast_dict* dict, int held, int time, holdfast_histogram* histogram) {
  return guarded([&]() -> int {
    const std::size_t size = histogram->struct_size;
    if (const int bad = check_size("struct_size of holdfast_histogram", size, sizeof *histogram)) return bad;
    if (held < HOLDFAST_HELD_LOCK || held > HOLDFAST_HELD_SEMAPHORE)
      return fail(Code::invalid, "bad histogram kind: expected HOLDFAST_HELD_LOCK, _RWLOCK or _SEMAPHORE");
    if (time != HOLDFAST_TIME_WAITED && time != HOLDFAST_TIME_HELD)
      return fail(Code::invalid, "bad histogram time: expected HOLDFAST_TIME_WAITED or HOLDFAST_TIME_HELD");
    std::memset(static_cast<void*>(histogram), 0, size);
    histogram->struct_size = size;
    Histogram counts;
    const Code code = unwrap(dict).histogram(static_cast<HeldKind>(held), static_cast<TimeKind>(time), counts);
    histogram->count = counts.count;
    histogram->sum = seconds(counts.sum_ns);
    histogram->max = seconds(counts.max_ns);
    std::copy(counts.counts.begin(), counts.counts.end(), histogram->buckets);
    return outcome(code, unwrap(dict));
  });
}

double holdfast_bucket_end(uint32_t bucket) {
  return bucket < kBuckets - 1 ? seconds(end_of_bucket(bucket)) : std::numeric_limits<double>::infinity();
}

double holdfast_quantile(const holdfast_histogram* histogram, double quantile) {
  if (!(quantile >= 0 && quantile <= 1)) return 0;
  double left = quantile * static_cast<double>(histogram->count);
  for (std::uint32_t i = 0; i < kBuckets; ++i) {
    const auto here = static_cast<double>(histogram->buckets[i]);
    if (here == 0 || (left -= here) > 0) continue;
    if (i + 1 == kBuckets) return histogram->max;
    return std::min((begin_of(i) + holdfast_bucket_end(i)) / 2, histogram->max);
  }
  return 0;
}

int holdfast_dict_contention(holdfast_dict* dict, holdfast_contended* keys, size_t struct_size, uint32_t max,
                             uint32_t* count) {
  return guarded([&]() -> int {
    *count = 0;
    if (const int bad = check_size("struct_size of holdfast_contended", struct_size, sizeof *keys)) return bad;
    std::array<Contended, HOLDFAST_CONTENDED_MAX> found;
    const std::span<Contended> room(found.data(), std::min<std::size_t>(max, found.size()));
    std::size_t given = 0;
    const Code code = unwrap(dict).contention(room, given);
    for (std::size_t i = 0; i < given; ++i) {
      auto* const at = reinterpret_cast<char*>(keys) + i * struct_size;
      std::memset(at, 0, struct_size);
      fill(*reinterpret_cast<holdfast_contended*>(at), found[i]);
    }
    *count = static_cast<std::uint32_t>(given);
    return outcome(code, unwrap(dict));
  });
}
