// Calls that block the calling thread. Each function checks its arguments, makes one call to the core, and converts the
// result.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/name.h"
#include "capi/handle.h"
#include "capi/request.h"
#include "dict/gate.h"
#include "lock/acquire.h"
#include "lock/lock_info.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

/// The size, in bytes, of the first version of holdfast_request.
constexpr std::size_t kFirstSize = offsetof(holdfast_request, why) + sizeof(const char*);
static_assert(sizeof(holdfast_request) == kFirstSize);
/// No version of the struct will ever be larger than this.
constexpr std::size_t kLargestSize = 4096;

/// Reads the fields of the host's version of the struct. Fields that this version lacks become 0. Fields that this
/// library does not know must be 0, or the call fails.
int read_request(const holdfast_request& given, holdfast_request& request) {
  const std::size_t size = given.struct_size;
  if (size < kFirstSize || size > kLargestSize)
    return fail_number("struct_size of holdfast_request", size,
                       "sizeof(holdfast_request), which HOLDFAST_REQUEST() sets");
  const auto* const bytes = reinterpret_cast<const char*>(&given);
  if (size > sizeof request &&
      std::any_of(bytes + sizeof request, bytes + size, [](char byte) { return byte != '\0'; }))
    return fail(Code::invalid,
                "bad request: this version of libholdfast does not know one of its fields; update libholdfast");
  request = {};
  std::memcpy(&request, &given, std::min(size, sizeof request));
  return HOLDFAST_OK;
}

int want_kind(const holdfast_request& given, Request& request) {
  switch (given.kind) {
    case HOLDFAST_HELD_LOCK:
      if (given.want == 0 && given.total == 0) return HOLDFAST_OK;
      return fail(Code::invalid, "bad request: expected want and total to be 0 for HOLDFAST_HELD_LOCK");
    case HOLDFAST_HELD_RWLOCK:
      return want_permits(HOLDFAST_RWLOCK, given.want, given.total, request);
    case HOLDFAST_HELD_SEMAPHORE:
      return want_permits(HOLDFAST_SEMAPHORE, given.want, given.total, request);
    default:
      return fail(Code::invalid, "bad request kind: expected a value of holdfast_held");
  }
}

// Describes a cycle of waits: `the holder of "a" waits for "b", the holder of "b" waits for "c"`.
std::string describe(const std::vector<std::string>& cycle) {
  std::string text;
  for (std::size_t i = 0; i + 1 < cycle.size(); ++i)
    text += "the holder of " + quote(cycle[i]) + " waits for " + quote(cycle[i + 1]) + ", ";
  return text;
}

int fail_unavailable(Dictionary& dictionary) {
  double seconds = 0;
  const Gate* const gate = dictionary.gate();
  return fail({Code::unavailable, gate != nullptr ? gate->state(dictionary, seconds).message : ""});
}

int outcome_of_wait(Code code, Dictionary& dictionary, const std::vector<std::string>& cycle) {
  switch (code) {
    case Code::deadlock:
      if (cycle.empty()) return fail(code);
      return fail(
          {code, "the wait would never end: " + describe(cycle) + "and the caller holds " + quote(cycle.back())});
    case Code::unavailable:
      return fail_unavailable(dictionary);
    case Code::invalid:
      return fail(code, "a signal handler forked this process during the call");
    default:
      return outcome(code, dictionary);
  }
}

}  // namespace

int holdfast_lock(holdfast_dict* dict, const char* key, size_t key_length, double timeout, double exptime,
                  holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    if (const int bad = check_timeout(timeout)) return bad;
    Lease granted;
    std::vector<std::string> none;
    *lease = {};
    const auto request = [&] { return Request{.exptime = exptime, .waits_next = timeout > 0, .blocks = timeout > 0}; };
    const std::string_view name(key, key_length);
    Code code = lock_try(unwrap(dict), name, exptime, kNoTask, false, granted, request);
    if (code != Code::ok) code = go_on_blocking(unwrap(dict), name, request(), timeout, code, granted, none);
    *lease = {granted.owner, granted.sequence};
    return code == Code::ok ? HOLDFAST_OK : outcome_of_wait(code, unwrap(dict), none);
  });
}

int holdfast_acquire(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_request* request,
                     holdfast_lease* lease) {
  return guarded([&]() -> int {
    holdfast_request given;
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = read_request(*request, given)) return bad;
    if (const int bad = check_seconds("exptime", given.exptime)) return bad;
    if (const int bad = check_timeout(given.timeout)) return bad;
    Request wanted{.exptime = given.exptime,
                   .holder_task = given.holder_task,
                   .task = given.task,
                   .fair = given.fair != 0,
                   .holds = to_holds(given.holds),
                   .waits_next = given.timeout > 0,
                   .blocks = given.timeout > 0};
    if (const int bad = want_kind(given, wanted)) return bad;
    Lease granted;
    std::vector<std::string> cycle;
    *lease = {};
    const std::string_view name(key, key_length);
    Dictionary& dictionary = unwrap(dict);
    const Code code = acquire_blocking(dictionary, name, wanted, given.timeout, granted, cycle);
    *lease = {granted.owner, granted.sequence};
    if (code != Code::ok) return outcome_of_wait(code, dictionary, cycle);
    if (given.why != nullptr) {  // the reason is dropped if there is no memory for it
      const std::string_view why(given.why, ::strnlen(given.why, HOLDFAST_WHY_MAX));
      static_cast<void>(explain(dictionary, name, granted, why));
    }
    return HOLDFAST_OK;
  });
}

int holdfast_upgrade(holdfast_dict* dict, const char* key, size_t key_length, double timeout, uint32_t task,
                     const holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_timeout(timeout)) return bad;
    const Request request{.task = task,
                          .holds = task != kNoTask ? HoldsLocks::something : HoldsLocks::nothing,
                          .waits_next = timeout > 0,
                          .blocks = timeout > 0};
    Lease held{lease->owner, lease->sequence};
    std::vector<std::string> cycle;
    Dictionary& dictionary = unwrap(dict);
    const Code code = acquire_blocking(dictionary, {key, key_length}, upgrade_of(request), timeout, held, cycle);
    return code == Code::invalid || !cycle.empty() ? outcome_of_wait(code, dictionary, cycle)
                                                   : outcome_of_upgrade(code, dictionary, false);
  });
}
