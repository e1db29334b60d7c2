// This code has a separate file, because every static probe in a file that defines _SDT_HAS_SEMAPHORES has a semaphore.
#include "lock/request.h"

#if HOLDFAST_PROBES

#include "dict/dictionary.h"

#define _SDT_HAS_SEMAPHORES 1  // NOLINT: the header asks for this name
#include <sys/sdt.h>

extern "C" {
unsigned short holdfast_acquire_semaphore __attribute__((section(".probes"), visibility("hidden"))) = 0;
unsigned short holdfast_release_semaphore __attribute__((section(".probes"), visibility("hidden"))) = 0;
}

namespace holdfast::trace_internal {

[[gnu::cold, gnu::noinline]] void acquire(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  STAP_PROBE5(holdfast, acquire, dictionary.name().c_str(), key.data(), key.size(), lease.owner, lease.sequence);
}

[[gnu::cold, gnu::noinline]] void release(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  STAP_PROBE5(holdfast, release, dictionary.name().c_str(), key.data(), key.size(), lease.owner, lease.sequence);
}

}  // namespace holdfast::trace_internal

#endif
