// The probes of grants and releases (base/probe.h). They lie on the path of every lock, so each is a look at a word
// that tracers count themselves in (a semaphore of USDT); only then the arguments are brought together.
#pragma once

#include <cstdint>
#include <string_view>

#include "dict/dictionary.h"
#include "lock/lease.h"

namespace holdfast {

#if HOLDFAST_PROBES

namespace trace_internal {

void acquire(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;
void release(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;

}  // namespace trace_internal

// The kernel changes them, on behalf of a tracer. It is enough that each call looks again.
extern "C" unsigned short holdfast_acquire_semaphore __attribute__((visibility("hidden")));
extern "C" unsigned short holdfast_release_semaphore __attribute__((visibility("hidden")));

/// The lock, or permits, were granted to this process.
inline void trace_acquire(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  if (holdfast_acquire_semaphore != 0) [[unlikely]]
    trace_internal::acquire(dictionary, key, lease);
}
/// They were given back.
inline void trace_release(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  if (holdfast_release_semaphore != 0) [[unlikely]]
    trace_internal::release(dictionary, key, lease);
}

#else

inline void trace_acquire(Dictionary&, std::string_view, const Lease&) noexcept {}
inline void trace_release(Dictionary&, std::string_view, const Lease&) noexcept {}

#endif

}  // namespace holdfast
