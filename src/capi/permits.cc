// Calls for permits. Each function checks its arguments, makes one call to the core, and converts the result.
#include "lock/permits.h"

#include <string>

#include "capi/handle.h"
#include "capi/request.h"
#include "lock/acquire.h"
#include "wait/parking_lot.h"

using namespace holdfast;
using namespace holdfast::capi;

static_assert(HOLDFAST_ALL_PERMITS == kAllPermits);
static_assert(HOLDFAST_RWLOCK == static_cast<int>(PermitsKind::rwlock));
static_assert(HOLDFAST_SEMAPHORE == static_cast<int>(PermitsKind::semaphore));

int capi::want_permits(int kind, std::uint32_t want, std::uint32_t total, Request& request) {
  if (kind != HOLDFAST_RWLOCK && kind != HOLDFAST_SEMAPHORE)
    return fail(Code::invalid, "bad kind of permits: expected HOLDFAST_RWLOCK or HOLDFAST_SEMAPHORE");
  request.kind = kind == HOLDFAST_RWLOCK ? HeldKind::rwlock : HeldKind::semaphore;
  request.want = want;
  request.total = kind == HOLDFAST_RWLOCK ? kAllPermits : total;
  if (kind == HOLDFAST_SEMAPHORE && (total == 0 || total >= kAllPermits)) {
    return fail_number("number of permits", total, ("1 to " + std::to_string(kAllPermits - 1)).c_str());
  }
  if (kind == HOLDFAST_RWLOCK && want != 1 && want != kAllPermits)
    return fail_number("number of requested permits", want, "1 to read, or HOLDFAST_ALL_PERMITS to write");
  if (want == 0 || want > request.total) {
    return fail_number("number of requested permits", want,
                       ("1 to " + std::to_string(request.total) + " (the total)").c_str());
  }
  return HOLDFAST_OK;
}

int holdfast_permits_try(holdfast_dict* dict, const char* key, size_t key_length, int kind, uint32_t want,
                         uint32_t total, double exptime, uint32_t task, int how, holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    Request request = request_of(how, task, exptime);
    if (const int bad = want_permits(kind, want, total, request)) return bad;
    Lease granted;
    const Code code = acquire_try(unwrap(dict), {key, key_length}, request, granted);
    *lease = {granted.owner, granted.sequence};
    return outcome(code, unwrap(dict));
  });
}

int holdfast_permits_wait(holdfast_dict* dict, const char* key, size_t key_length, int kind, uint32_t want,
                          uint32_t total, double exptime, holdfast_wait* wait, holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    Request request = request_of(*wait, exptime);
    if (const int bad = want_permits(kind, want, total, request)) return bad;
    Lease granted;
    const Code code = acquire_wait(unwrap(dict), {key, key_length}, request, capi::step_of(*wait), granted);
    if (code == Code::invalid) return fail(code, "bad waiter: expected a number from holdfast_waiter_open");
    *lease = {granted.owner, granted.sequence};
    return outcome(code, unwrap(dict));
  });
}

int holdfast_permits_keep(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                          uint32_t count) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    const Code code = permits_keep(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, count);
    if (code == Code::invalid) return fail_number("number of permits to keep", count, "1 to the number in the lease");
    return outcome(code, unwrap(dict));
  });
}

int capi::outcome_of_upgrade(Code code, Dictionary& dictionary, bool has_cycle) noexcept {
  if (code == Code::unsupported && dictionary.gate() == nullptr)
    return fail(Code::invalid, "bad lease: only a reader of an rwlock can become the writer");
  if (code == Code::deadlock && !has_cycle)
    return fail(code, "another reader of this key is waiting to become the writer; release this read lock");
  return outcome(code, dictionary);
}

int holdfast_permits_upgrade(holdfast_dict* dict, const char* key, size_t key_length, int how, holdfast_wait* wait,
                             const holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    const std::string_view name(key, key_length);
    Lease held{lease->owner, lease->sequence};
    Request request = upgrade_of(wait == nullptr ? request_of(how, kNoTask, 0) : request_of(*wait, 0));
    request.any_owner = (how & HOLDFAST_HOW_ANY_OWNER) != 0;
    if (wait == nullptr) return outcome_of_upgrade(acquire_try(unwrap(dict), name, request, held), unwrap(dict), false);
    const WaitStep step = capi::step_of(*wait);
    const Code code = acquire_wait(unwrap(dict), name, request, step, held);
    if (code == Code::invalid) return fail(code, "bad waiter: expected a number from holdfast_waiter_open");
    const bool has_cycle = code == Code::deadlock && !step.parker.deadlock_keys(step.waiter).empty();
    return outcome_of_upgrade(code, unwrap(dict), has_cycle);
  });
}

int holdfast_permits_count(holdfast_dict* dict, const char* key, size_t key_length, uint32_t* used, uint32_t* waiters) {
  return guarded([&]() -> int {
    *used = 0;
    *waiters = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    PermitsCount count;
    const Code code = count_permits(unwrap(dict), {key, key_length}, count);
    if (code == Code::ok) {
      *used = count.used;
      *waiters = count.waiters;
    }
    return outcome(code, unwrap(dict));
  });
}
