// How the C ABI reaches the core: handles, results, the calling thread's last error.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "holdfast.h"

namespace holdfast::capi {

inline Dictionary& unwrap(holdfast_dict* dict) noexcept { return *reinterpret_cast<Dictionary*>(dict); }
inline holdfast_dict* wrap(Dictionary* dictionary) noexcept { return reinterpret_cast<holdfast_dict*>(dictionary); }

/// Keeps the sentence for holdfast_error() and gives the code.
int fail(const Status& status) noexcept;
/// `message` is a literal: it needs no memory.
int fail(Code code, const char* message) noexcept;

int fail_outcome(Code code, Dictionary& dictionary) noexcept;
int fail_key(const char* key, std::size_t length) noexcept;
int fail_seconds(const char* name, double seconds) noexcept;
int fail_number(const char* name, std::uint64_t given, const char* expected) noexcept;
/// Of what a call has thrown. REQUIRES: it is being caught.
int fail_exception() noexcept;

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

/// The body of every call that a host can make: gives its code, whatever is thrown inside. Costs nothing where nothing
/// is. scripts/lint sees to it that no call is without.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return fail_exception();
  }
}

/// The same for calls that give something else than a code.
template <class Result, class Call>
Result guarded_or(Result failed, Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    fail_exception();
    return failed;
  }
}

}  // namespace holdfast::capi
