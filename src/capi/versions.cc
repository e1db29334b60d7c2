// Calls for the versions of keys. Each function checks its arguments, makes one call to the core, and converts the
// result.
#include "dict/versions.h"

#include <memory>

#include "capi/handle.h"
#include "capi/request.h"
#include "capi/value.h"
#include "lock/changes.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

Version version_in(const holdfast_version_of_key& version) noexcept {
  return {static_cast<std::uint64_t>(version.number), version.stripe, static_cast<std::uint64_t>(version.end),
          version.deaths != 0};
}

holdfast_version_of_key version_out(const Version& version) noexcept {
  return {static_cast<std::int64_t>(version.number), version.stripe, version.deaths ? 1 : 0,
          static_cast<std::int64_t>(version.end_ms)};
}

int outcome_of_version(Code code, Dictionary& dictionary) noexcept {
  if (code == Code::unsupported) return fail(code, "the dictionary has no versions; open it with the option versions");
  return outcome(code, dictionary);
}

struct KeptVersions : holdfast_versions {
  std::shared_ptr<const Segment> segment;  // keeps the words mapped
};

}  // namespace

int holdfast_key_version(holdfast_dict* dict, const char* key, size_t key_length, holdfast_version_of_key* version) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    Version found;
    const Code code = unwrap(dict).version({key, key_length}, found);
    *version = version_out(found);
    return outcome_of_version(code, unwrap(dict));
  });
}

int holdfast_get_changed(holdfast_dict* dict, const char* key, size_t key_length, holdfast_version_of_key* version,
                         holdfast_value* value) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    Version known = version_in(*version);
    ValueOut out = room_in(*value);
    const Code code = unwrap(dict).get_changed({key, key_length}, known, out);
    *version = version_out(known);
    if (code == Code::unsupported) return outcome_of_version(code, unwrap(dict));
    return give(code, dict, out, *value);
  });
}

int holdfast_is_current(holdfast_dict* dict, int64_t number, uint32_t stripe, int64_t end) {
  return guarded_or(0, [&] { return unwrap(dict).is_current(version_in({number, stripe, 0, end})) ? 1 : 0; });
}

holdfast_versions* holdfast_keep_versions(holdfast_dict* dict) {
  return guarded_or<holdfast_versions*>(nullptr, [&]() -> holdfast_versions* {
    auto kept = std::make_unique<KeptVersions>();
    kept->segment = unwrap(dict).keep_segment();
    if (kept->segment == nullptr || !kept->segment->has_versions()) {
      outcome_of_version(kept->segment == nullptr ? Code::removed : Code::unsupported, unwrap(dict));
      return nullptr;
    }
    const Segment& segment = *kept->segment;
    kept->words = reinterpret_cast<const volatile std::int64_t*>(segment.first_stripe());
    kept->flushes = reinterpret_cast<const volatile std::int32_t*>(&segment.header().flush_epoch);
    kept->retired = reinterpret_cast<const volatile std::int32_t*>(&segment.header().file.retired);
    kept->base = static_cast<std::int64_t>(segment.base_version());
    return kept.release();
  });
}

void holdfast_release_versions(holdfast_versions* versions) {
  guarded([&]() -> int {
    const std::unique_ptr<KeptVersions> released(static_cast<KeptVersions*>(versions));
    return HOLDFAST_OK;
  });
}

int holdfast_store_unless_changed(holdfast_dict* dict, const char* key, size_t key_length,
                                  holdfast_version_of_key* version, int type, const char* data, size_t length,
                                  double number, double exptime, uint32_t flags, int* forcible) {
  return guarded([&]() -> int {
    if (forcible != nullptr) *forcible = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    ValueIn value{};
    if (type != HOLDFAST_NIL && !to_value(type, data, length, number, flags, value))
      return fail(Code::invalid, "bad value type: expected boolean, number, string, table or nil");
    Effect effect;
    Version known = version_in(*version);
    const Code code = unwrap(dict).store_unless_changed({key, key_length}, known,
                                                        type != HOLDFAST_NIL ? &value : nullptr, exptime, effect);
    if (forcible != nullptr && effect.evicted) *forcible = 1;
    *version = version_out(known);
    return outcome_of_version(code, unwrap(dict));
  });
}

int holdfast_wait_for_change(holdfast_dict* dict, const char* key, size_t key_length, double timeout,
                             holdfast_version_of_key* version) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_timeout(timeout)) return bad;
    Version known = version_in(*version);
    const Code code = wait_for_change(unwrap(dict), {key, key_length}, timeout, known);
    *version = version_out(known);
    return outcome_of_version(code, unwrap(dict));
  });
}

int holdfast_change_wait(holdfast_dict* dict, const char* key, size_t key_length, holdfast_wait* wait,
                         holdfast_version_of_key* version) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    Version known = version_in(*version);
    const Code code = watch_changes(unwrap(dict), {key, key_length}, step_of(*wait), known);
    *version = version_out(known);
    if (code == Code::invalid) return fail(code, kBadWaiter);
    return outcome_of_version(code, unwrap(dict));
  });
}
