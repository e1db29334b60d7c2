// How the C ABI reaches the core: handles, results, the calling thread's last error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "holdfast.h"

namespace holdfast::capi {

inline Dictionary& unwrap(holdfast_dict* dict) noexcept { return *reinterpret_cast<Dictionary*>(dict); }
inline holdfast_dict* wrap(Dictionary* dictionary) noexcept { return reinterpret_cast<holdfast_dict*>(dictionary); }

/// Keeps the sentence for holdfast_error() and gives the code.
int fail(const Status& status) noexcept;
int fail(Code code, const char* message) noexcept;

int fail_outcome(Code code, Dictionary& dictionary) noexcept;
int fail_key(const char* key, std::size_t length) noexcept;
int fail_seconds(const char* name, double seconds) noexcept;

/// The code alone, for outcomes that need no sentence; one is added for those that do.
inline int outcome(Code code, Dictionary& dictionary) noexcept {
  return code == Code::ok ? HOLDFAST_OK : fail_outcome(code, dictionary);
}

/// Ok if the key is 1 to HOLDFAST_KEY_MAX bytes.
inline int check_key(const char* key, std::size_t length) noexcept {
  return key != nullptr && length - 1 < HOLDFAST_KEY_MAX ? HOLDFAST_OK : fail_key(key, length);
}
/// Ok if it is a time: not negative, not NaN.
inline int check_seconds(const char* name, double seconds) noexcept {
  return seconds >= 0.0 ? HOLDFAST_OK : fail_seconds(name, seconds);
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

}  // namespace holdfast::capi
