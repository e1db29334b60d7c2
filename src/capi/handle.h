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

/// The code alone, for outcomes that need no sentence; one is added for those that do.
int outcome(Code code, Dictionary& dictionary) noexcept;

/// Ok if the key is 1 to HOLDFAST_KEY_MAX bytes.
int check_key(const char* key, std::size_t length) noexcept;
/// Ok if it is a time: not negative, not NaN.
int check_seconds(const char* name, double seconds) noexcept;

}  // namespace holdfast::capi
