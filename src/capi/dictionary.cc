// Calls for dictionaries and their lists. Each function checks its arguments, makes one call to the core, and converts
// the result.
#include "dict/dictionary.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "capi/handle.h"
#include "capi/value.h"
#include "dict/registry.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

int check_options(const holdfast_options& options) {
  if (options.mutex < HOLDFAST_MUTEX_FUTEX || options.mutex > HOLDFAST_MUTEX_FILE)
    return fail(Code::invalid, "bad mutex: expected futex (0), spin (1) or file (2)");
  if ((options.mode & ~0666U) != 0) return fail(Code::invalid, "bad mode: expected permission bits within 0666");
  if (options.mode != 0 && (options.mode & 0600U) != 0600U)
    return fail(Code::invalid, "bad mode: the owner must be able to read and write (0600)");
  if (options.cluster != nullptr) {
    if (const Status bad = check_cluster_name(options.cluster); !bad.ok()) return fail(bad);
  }
  return HOLDFAST_OK;
}

std::uint32_t persist_of(const holdfast_options& options) noexcept {
  if (options.persist == 0) return kKept;
  return options.persist > 0 ? kPersistent : kTemporary;
}

int check_name_given(const char* name, std::size_t length) noexcept {
  if (name == nullptr) return fail(Code::invalid, "bad dictionary name: expected 1 to 250 bytes, got a null pointer");
  // Names up to this length are left to check_name(), whose message quotes the name.
  constexpr std::size_t kQuotable = 4096;
  return length <= kQuotable ? HOLDFAST_OK : fail_number("dictionary name", length, "1 to 250 bytes");
}

bool to_value_of(const holdfast_value& given, ValueIn& value) noexcept {
  return to_value(given.type, given.data, given.size, given.number, given.flags, value);
}

void report(const Effect& effect, int* forcible) noexcept {
  if (forcible != nullptr && effect.evicted) *forcible = 1;
}

int check_end(int end) noexcept {
  return end == HOLDFAST_LEFT || end == HOLDFAST_RIGHT ? HOLDFAST_OK
                                                       : fail(Code::invalid, "bad end: expected left (0) or right (1)");
}

int open_dictionary(const char* name, std::size_t length, const holdfast_options& options, bool versions,
                    holdfast_dict** dict) {
  if (const int bad = check_name_given(name, length)) return bad;
  if (const int bad = check_options(options)) return bad;
  const DictionaryOptions asked{.size = options.size,
                                .mutex = static_cast<MutexStrategy>(options.mutex),
                                .persist = persist_of(options),
                                .mode = options.mode != 0 ? options.mode : 0600,
                                .gate = options.cluster != nullptr ? options.cluster : "",
                                .largest = options.largest,
                                .versions = versions};
  auto opened = Registry::get().open(std::string(name, length), asked);
  if (!opened) return fail(opened.status());
  *dict = wrap(*opened);
  return HOLDFAST_OK;
}

}  // namespace

int holdfast_open(const char* name, size_t length, const holdfast_options* options, holdfast_dict** dict) {
  return guarded([&] { return open_dictionary(name, length, *options, false, dict); });
}

int holdfast_open_with_versions(const char* name, size_t length, const holdfast_options* options,
                                holdfast_dict** dict) {
  return guarded([&] { return open_dictionary(name, length, *options, true, dict); });
}

int holdfast_attach(const char* name, size_t length, holdfast_dict** dict) {
  return guarded([&] {
    if (const int bad = check_name_given(name, length)) return bad;
    auto opened = Registry::get().attach(std::string(name, length));
    if (!opened) return fail(opened.status());
    *dict = wrap(*opened);
    return static_cast<int>(HOLDFAST_OK);
  });
}

int holdfast_remove(const char* name, size_t length) {
  return guarded([&] {
    if (const int bad = check_name_given(name, length)) return bad;
    const auto status = Registry::get().remove(std::string(name, length));
    return status.ok() ? static_cast<int>(HOLDFAST_OK) : fail(status);
  });
}

int holdfast_get(holdfast_dict* dict, const char* key, size_t key_length, holdfast_value* value) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    ValueOut out = room_in(*value);
    return give(unwrap(dict).get({key, key_length}, out), dict, out, *value);
  });
}

int holdfast_get_stale(holdfast_dict* dict, const char* key, size_t key_length, holdfast_value* value, int* stale) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    ValueOut out = room_in(*value);
    bool over = false;
    const Code code = unwrap(dict).get_stale({key, key_length}, out, over);
    *stale = over ? 1 : 0;
    return give(code, dict, out, *value);
  });
}

int holdfast_store(holdfast_dict* dict, int op, const char* key, size_t key_length, int type, const char* data,
                   size_t length, double number, double exptime, uint32_t flags, int* forcible) {
  return guarded([&]() -> int {
    if (forcible != nullptr) *forcible = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    if (op < HOLDFAST_SET || op > HOLDFAST_SAFE_ADD)
      return fail(Code::invalid, "bad op: expected set, add, replace, safe_set or safe_add");
    if (type == HOLDFAST_NIL && (op == HOLDFAST_SET || op == HOLDFAST_SAFE_SET))
      return holdfast_delete(dict, key, key_length);
    ValueIn value{};
    if (!to_value(type, data, length, number, flags, value))
      return fail(Code::invalid, "bad value type: expected boolean, number, string or table (or nil, in set)");
    Effect effect;
    const Code code = unwrap(dict).store(static_cast<StoreOp>(op), {key, key_length}, value, exptime, effect);
    report(effect, forcible);
    return outcome(code, unwrap(dict));
  });
}

int holdfast_cas(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_value* expected,
                 const holdfast_value* desired, double exptime, int* forcible) {
  return guarded([&]() -> int {
    if (forcible != nullptr) *forcible = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    ValueIn before{};
    ValueIn after{};
    const bool was = expected != nullptr && expected->type != HOLDFAST_NIL;
    const bool will = desired != nullptr && desired->type != HOLDFAST_NIL;
    if ((was && !to_value_of(*expected, before)) || (will && !to_value_of(*desired, after)))
      return fail(Code::invalid, "bad value type: expected boolean, number, string, table or nil");
    Effect effect;
    const Code code = unwrap(dict).compare_and_swap({key, key_length}, was ? &before : nullptr, will ? &after : nullptr,
                                                    exptime, effect);
    report(effect, forcible);
    return outcome(code, unwrap(dict));
  });
}

int holdfast_delete(holdfast_dict* dict, const char* key, size_t key_length) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    const Code code = unwrap(dict).remove({key, key_length});
    return code == Code::not_found ? static_cast<int>(HOLDFAST_OK) : outcome(code, unwrap(dict));
  });
}

int holdfast_incr(holdfast_dict* dict, const char* key, size_t key_length, double by, int has_init, double init,
                  double init_ttl, double* sum, int* forcible) {
  return guarded([&]() -> int {
    if (forcible != nullptr) *forcible = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("init_ttl", init_ttl)) return bad;
    const Dictionary::Initial initial{init, init_ttl};
    Effect effect;
    const Code code = unwrap(dict).increment({key, key_length}, by, has_init != 0 ? &initial : nullptr, *sum, effect);
    report(effect, forcible);
    return outcome(code, unwrap(dict));
  });
}

int holdfast_ttl(holdfast_dict* dict, const char* key, size_t key_length, double* seconds) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(unwrap(dict).ttl({key, key_length}, *seconds), unwrap(dict));
  });
}

int holdfast_expire(holdfast_dict* dict, const char* key, size_t key_length, double exptime) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    return outcome(unwrap(dict).expire({key, key_length}, exptime), unwrap(dict));
  });
}

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
    return give(unwrap(dict).pop({key, key_length}, static_cast<End>(end), out), dict, out, *value);
  });
}

int holdfast_llen(holdfast_dict* dict, const char* key, size_t key_length, uint32_t* count) {
  return guarded([&]() -> int {
    *count = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(unwrap(dict).list_length({key, key_length}, *count), unwrap(dict));
  });
}
