// The basis of the C API's functions: handles, results, and the calling thread's last error.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "dict/packed_keys.h"
#include "holdfast.h"

namespace holdfast::capi {

inline Dictionary& unwrap(holdfast_dict* dict) noexcept { return *reinterpret_cast<Dictionary*>(dict); }
inline holdfast_dict* wrap(Dictionary* dictionary) noexcept { return reinterpret_cast<holdfast_dict*>(dictionary); }

/// Keeps the message for holdfast_error(), and returns the code. Every code except HOLDFAST_OK passes through this
/// function, so that the message always belongs to the last failed call. scripts/lint finds codes that bypass this
/// function.
int fail(const Status& status) noexcept;
/// Does the same with a literal. Allocates no memory.
int fail(Code code, const char* message) noexcept;

int fail_outcome(Code code, Dictionary& dictionary) noexcept;
int fail_key(const char* key, std::size_t length) noexcept;
int fail_seconds(const char* name, double seconds) noexcept;
int fail_number(const char* name, std::uint64_t given, const char* expected) noexcept;
/// Returns the code of the exception that is being handled. REQUIRES: the call is in a catch block.
int fail_exception() noexcept;

/// Returns the code, and keeps a message if the code needs one.
inline int outcome(Code code, Dictionary& dictionary) noexcept {
  return code == Code::ok ? HOLDFAST_OK : fail_outcome(code, dictionary);
}

/// Returns the code of a call that returns keys: BUFFER if the keys did not fit. In that case, `keys.size` is the size
/// that the keys need.
int outcome_of_keys(const PackedKeys& packed, holdfast_value& keys, std::uint32_t& count) noexcept;

/// Returns OK if the key has 1 to HOLDFAST_KEY_MAX bytes.
inline int check_key(const char* key, std::size_t length) noexcept {
  return key != nullptr && length - 1 < HOLDFAST_KEY_MAX ? HOLDFAST_OK : fail_key(key, length);
}
/// Returns OK if the number is neither negative nor NaN.
inline int check_seconds(const char* name, double seconds) noexcept {
  return seconds >= 0.0 ? HOLDFAST_OK : fail_seconds(name, seconds);
}

/// Returns OK if the number is not NaN.
int check_timeout(double timeout) noexcept;

/// Runs the body of a function of the C API, and returns its code, even if the body throws. Costs nothing if the body
/// does not throw. scripts/lint finds API functions whose body is not guarded.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return fail_exception();
  }
}

/// Does the same for functions that do not return a code.
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
