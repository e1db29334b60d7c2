// Dictionaries: check the arguments, call one thing, map the result.
#include "dict/dictionary.h"

#include <bit>
#include <cmath>

#include "capi/handle.h"
#include "dict/registry.h"

using holdfast::Code;
using holdfast::Dictionary;
using holdfast::DictionaryOptions;
using holdfast::EntryType;
using holdfast::MutexStrategy;
using holdfast::Registry;
using holdfast::StoreOp;
using holdfast::ValueIn;
using holdfast::ValueOut;
using holdfast::capi::check_key;
using holdfast::capi::check_seconds;
using holdfast::capi::fail;
using holdfast::capi::outcome;
using holdfast::capi::unwrap;
using holdfast::capi::wrap;

namespace {

int check_options(const holdfast_options& options) noexcept {
  if (options.mutex < HOLDFAST_MUTEX_FUTEX || options.mutex > HOLDFAST_MUTEX_FILE)
    return fail(Code::invalid, "bad mutex: expected futex (0), spin (1) or file (2)");
  if ((options.mode & ~0666U) != 0) return fail(Code::invalid, "bad mode: expected permission bits within 0666");
  if (options.mode != 0 && (options.mode & 0600U) != 0600U)
    return fail(Code::invalid, "bad mode: the owner must be able to read and write (0600)");
  return HOLDFAST_OK;
}

/// False if the type is none that can be stored.
bool to_value(int type, const char* data, std::size_t length, double number, std::uint32_t flags,
              ValueIn& value) noexcept {
  switch (type) {
    case HOLDFAST_BOOLEAN:
      value = {EntryType::boolean, flags, number != 0.0 ? 1U : 0U, nullptr, 8};
      return true;
    case HOLDFAST_NUMBER:
      value = {EntryType::number, flags, std::bit_cast<std::uint64_t>(number), nullptr, 8};
      return true;
    case HOLDFAST_STRING:
      value = {EntryType::string, flags, 0, data, length};
      return true;
    default:
      return false;
  }
}

void from_value(const ValueOut& out, holdfast_value& value) noexcept {
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
    default:
      value.type = HOLDFAST_BOOLEAN;
      value.number = out.bits != 0 ? 1.0 : 0.0;
  }
}

/// Runs a call that may allocate.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return fail(Code::no_memory, "out of memory");
  }
}

}  // namespace

int holdfast_open(const char* name, size_t length, const holdfast_options* options, holdfast_dict** dict) {
  return guarded([&] {
    if (const int bad = check_options(*options)) return bad;
    const DictionaryOptions wanted{options->size, static_cast<MutexStrategy>(options->mutex), options->persist != 0,
                                   options->mode != 0 ? options->mode : 0600};
    auto opened = Registry::get().open(std::string(name, length), wanted);
    if (!opened) return fail(opened.status());
    *dict = wrap(*opened);
    return static_cast<int>(HOLDFAST_OK);
  });
}

int holdfast_attach(const char* name, size_t length, holdfast_dict** dict) {
  return guarded([&] {
    auto opened = Registry::get().attach(std::string(name, length));
    if (!opened) return fail(opened.status());
    *dict = wrap(*opened);
    return static_cast<int>(HOLDFAST_OK);
  });
}

int holdfast_remove(const char* name, size_t length) {
  return guarded([&] {
    const auto status = Registry::get().remove(std::string(name, length));
    return status.ok() ? static_cast<int>(HOLDFAST_OK) : fail(status);
  });
}

int holdfast_get(holdfast_dict* dict, const char* key, size_t key_length, holdfast_value* value) {
  if (const int bad = check_key(key, key_length)) return bad;
  ValueOut out{};
  out.buffer = value->data;
  out.capacity = value->capacity;
  const Code code = unwrap(dict).get({key, key_length}, out);
  if (code != Code::ok && code != Code::buffer) {
    value->type = HOLDFAST_NIL;
    return outcome(code, unwrap(dict));
  }
  from_value(out, *value);
  return static_cast<int>(code);
}

int holdfast_store(holdfast_dict* dict, int op, const char* key, size_t key_length, int type, const char* data,
                   size_t length, double number, double exptime, uint32_t flags, int* forcible) {
  if (forcible != nullptr) *forcible = 0;
  if (const int bad = check_key(key, key_length)) return bad;
  if (const int bad = check_seconds("exptime", exptime)) return bad;
  if (op < HOLDFAST_SET || op > HOLDFAST_REPLACE) return fail(Code::invalid, "bad op: expected set, add or replace");
  if (type == HOLDFAST_NIL && op == HOLDFAST_SET) return holdfast_delete(dict, key, key_length);
  ValueIn value{};
  if (!to_value(type, data, length, number, flags, value))
    return fail(Code::invalid, "bad value type: expected boolean, number or string (or nil, in set)");
  return outcome(unwrap(dict).store(static_cast<StoreOp>(op), {key, key_length}, value, exptime), unwrap(dict));
}

int holdfast_delete(holdfast_dict* dict, const char* key, size_t key_length) {
  if (const int bad = check_key(key, key_length)) return bad;
  const Code code = unwrap(dict).remove({key, key_length});
  return code == Code::not_found ? static_cast<int>(HOLDFAST_OK) : outcome(code, unwrap(dict));
}

int holdfast_incr(holdfast_dict* dict, const char* key, size_t key_length, double by, int has_init, double init,
                  double init_ttl, double* sum, int* forcible) {
  if (forcible != nullptr) *forcible = 0;
  if (const int bad = check_key(key, key_length)) return bad;
  if (const int bad = check_seconds("init_ttl", init_ttl)) return bad;
  const Dictionary::Initial initial{init, init_ttl};
  return outcome(unwrap(dict).increment({key, key_length}, by, has_init != 0 ? &initial : nullptr, *sum), unwrap(dict));
}

int holdfast_ttl(holdfast_dict* dict, const char* key, size_t key_length, double* seconds) {
  if (const int bad = check_key(key, key_length)) return bad;
  return outcome(unwrap(dict).ttl({key, key_length}, *seconds), unwrap(dict));
}

int holdfast_expire(holdfast_dict* dict, const char* key, size_t key_length, double exptime) {
  if (const int bad = check_key(key, key_length)) return bad;
  if (const int bad = check_seconds("exptime", exptime)) return bad;
  return outcome(unwrap(dict).expire({key, key_length}, exptime), unwrap(dict));
}

int holdfast_flush_all(holdfast_dict* dict) { return outcome(unwrap(dict).flush_all(), unwrap(dict)); }

int holdfast_keys(holdfast_dict* dict, uint32_t max, const char** packed, size_t* bytes, uint32_t* count) {
  return guarded([&] {
    thread_local std::string buffer;
    const int code = outcome(unwrap(dict).keys(max, buffer, *count), unwrap(dict));
    *packed = buffer.data();
    *bytes = buffer.size();
    return code;
  });
}

uint64_t holdfast_capacity(holdfast_dict* dict) { return unwrap(dict).capacity(); }

uint64_t holdfast_free_space(holdfast_dict* dict) { return unwrap(dict).free_space(); }
