// Calls for locks, waiting and deadlocks. Each function checks its arguments, makes one call to the core, and converts
// the result.
#include "lock/acquire.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "capi/handle.h"
#include "capi/request.h"
#include "lock/release.h"
#include "lock/watchers.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "wait/task_id.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

Parker& unwrap(holdfast_parker* parker) noexcept { return *reinterpret_cast<Parker*>(parker); }

static_assert(sizeof(holdfast_bound) == sizeof(BoundLock) &&
              offsetof(holdfast_bound, lease) == offsetof(BoundLock, lease));
BoundLock& unwrap(holdfast_bound* bound) noexcept { return *reinterpret_cast<BoundLock*>(bound); }

static_assert(sizeof(holdfast_lease) == sizeof(Lease) &&
              offsetof(holdfast_lease, sequence) == offsetof(Lease, sequence));
/// Returns the caller's lease, for the calls that take and release locks. Copying it would stall them for 5 ns, because
/// its halves are stored one by one and copied as one word of 16 bytes.
Lease& unwrap(holdfast_lease* lease) noexcept { return *reinterpret_cast<Lease*>(lease); }

std::uint64_t deadline_after(double seconds) noexcept {
  constexpr double kLongestSleep = 1e9;  // 31 years
  if (seconds < 0 || seconds > kLongestSleep) return kNever;
  return platform::monotonic_ns() + static_cast<std::uint64_t>(std::ceil(seconds * 1e9));
}

}  // namespace

int holdfast_lock_try(holdfast_dict* dict, const char* key, size_t key_length, double exptime, uint32_t task, int how,
                      holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    *lease = {};
    const Code code = lock_try(unwrap(dict), {key, key_length}, exptime, task, (how & HOLDFAST_HOW_FAIR) != 0,
                               unwrap(lease), [&] { return request_of(how, task, exptime); });
    return outcome(code, unwrap(dict));
  });
}

int holdfast_lock_bind(holdfast_dict* dict, const char* key, size_t key_length, double exptime, uint32_t task, int how,
                       holdfast_bound* bound) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    return outcome(lock_and_bind(unwrap(dict), {key, key_length}, request_of(how, task, exptime), unwrap(bound)),
                   unwrap(dict));
  });
}

int holdfast_lock_again(holdfast_dict* dict, const char* key, size_t key_length, double exptime, uint32_t task,
                        holdfast_bound* bound) {
  return guarded([&] { return lock_again(unwrap(dict), {key, key_length}, exptime, task, unwrap(bound)); });
}

int holdfast_unlock_again(holdfast_dict* dict, const char* key, size_t key_length, holdfast_bound* bound) {
  return guarded([&] { return unlock_again(unwrap(dict), {key, key_length}, unwrap(bound)); });
}

int holdfast_unlock(holdfast_dict* dict, const char* key, size_t key_length, holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(unlock(unwrap(dict), {key, key_length}, unwrap(lease)), unwrap(dict));
  });
}

int holdfast_unlock_for_certain(holdfast_dict* dict, const char* key, size_t key_length, holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(unlock_for_certain(unwrap(dict), {key, key_length}, unwrap(lease)), unwrap(dict));
  });
}

int holdfast_lock_break(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(break_lease(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}), unwrap(dict));
  });
}

int holdfast_lock_renew(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                        double exptime) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    return outcome(renew(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, exptime), unwrap(dict));
  });
}

int holdfast_lock_adopt(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                        uint32_t task) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(adopt(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, task), unwrap(dict));
  });
}

int holdfast_lock_remaining(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                            double* seconds) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(remaining(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, *seconds), unwrap(dict));
  });
}

holdfast_parker* holdfast_parker_new(void) {
  return guarded_or<holdfast_parker*>(nullptr, []() -> holdfast_parker* {
    auto world = World::current();
    if (!world) {
      fail(world.status());
      return nullptr;
    }
    return reinterpret_cast<holdfast_parker*>(std::make_unique<Parker>(**world).release());
  });
}

void holdfast_parker_free(holdfast_parker* parker) {
  guarded([&]() -> int {
    const std::unique_ptr<Parker> owned(reinterpret_cast<Parker*>(parker));
    return HOLDFAST_OK;
  });
}

uint32_t holdfast_waiter_open(holdfast_parker* parker) {
  return guarded_or<uint32_t>(0, [&] {
    const std::uint32_t number = unwrap(parker).open_waiter();
    if (number == 0) fail(Code::no_memory, "too many waiters in this process: at most 1048576");
    return number;
  });
}

void holdfast_waiter_close(holdfast_parker* parker, uint32_t waiter) {
  guarded([&]() -> int {
    unwrap(parker).close_waiter(waiter);
    return HOLDFAST_OK;
  });
}

int holdfast_lock_wait(holdfast_dict* dict, const char* key, size_t key_length, double exptime, holdfast_wait* wait,
                       holdfast_lease* lease) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("exptime", exptime)) return bad;
    Lease granted;
    const Code code =
        acquire_wait(unwrap(dict), {key, key_length}, request_of(*wait, exptime), step_of(*wait), granted);
    if (code == Code::invalid) return fail(code, kBadWaiter);
    *lease = {granted.owner, granted.sequence};
    return outcome(code, unwrap(dict));
  });
}

int holdfast_lock_watch(holdfast_dict* dict, const char* key, size_t key_length, holdfast_wait* wait, uint64_t* grant) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (wait == nullptr) return outcome(watch_try(unwrap(dict), {key, key_length}, *grant), unwrap(dict));
    const Code code = watch_wait(unwrap(dict), {key, key_length}, request_of(*wait, 0), step_of(*wait), *grant);
    if (code == Code::invalid) return fail(code, kBadWaiter);
    return outcome(code, unwrap(dict));
  });
}

int holdfast_lock_leave(holdfast_dict* dict, const char* key, size_t key_length, holdfast_parker* parker,
                        uint32_t waiter) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    return outcome(leave_queue(unwrap(dict), {key, key_length}, unwrap(parker), waiter), unwrap(dict));
  });
}

uint32_t holdfast_task_ids(void) { return new_task_ids(); }

int holdfast_deadlock_keys(holdfast_parker* parker, uint32_t waiter, holdfast_value* keys, uint32_t* count) {
  return guarded([&]() -> int {
    PackedKeys packed(keys->data, keys->capacity);
    for (const std::string& key : unwrap(parker).deadlock_keys(waiter)) packed.add(key);
    const int given = outcome_of_keys(packed, *keys, *count);
    return packed.count() != 0 ? given : fail(Code::not_found);
  });
}

int holdfast_parker_sleep(holdfast_parker* parker, double seconds, uint32_t* waiters, int max) {
  return guarded_or(-1, [&] {
    if (std::isnan(seconds) || max < 1) {
      fail(Code::invalid, "parker_sleep: expected a number of seconds and room for at least one waiter");
      return -1;
    }
    return static_cast<int>(unwrap(parker).sleep(deadline_after(seconds), {waiters, static_cast<std::size_t>(max)}));
  });
}

int holdfast_parker_fd(holdfast_parker* parker) {
  return guarded_or(-1, [&] {
    auto descriptor = unwrap(parker).descriptor();
    if (descriptor) return *descriptor;
    fail(descriptor.status());
    return -1;
  });
}

int holdfast_parker_timer(holdfast_parker* parker, double seconds) {
  return guarded([&]() -> int {
    if (std::isnan(seconds)) return fail(Code::invalid, "bad seconds to parker_timer: expected a number of seconds");
    const Status status = unwrap(parker).set_alarm(deadline_after(seconds));
    return status.ok() ? static_cast<int>(HOLDFAST_OK) : fail(status);
  });
}

int holdfast_parker_listen(holdfast_parker* parker, char* path, size_t size) {
  return guarded([&] {
    auto chosen = unwrap(parker).listen();
    if (!chosen) return fail(chosen.status());
    if (chosen->size() >= size) {
      unwrap(parker).disconnect();
      return fail(Code::invalid,
                  "the buffer for parker_listen is too small; HOLDFAST_PATH_MAX bytes are always enough");
    }
    std::memcpy(path, chosen->c_str(), chosen->size() + 1);
    return static_cast<int>(HOLDFAST_OK);
  });
}

int holdfast_parker_accept(holdfast_parker* parker) {
  return guarded([&] {
    const Status status = unwrap(parker).accept();
    return status.ok() ? static_cast<int>(HOLDFAST_OK) : fail(status);
  });
}

void holdfast_parker_disconnect(holdfast_parker* parker) {
  guarded([&]() -> int {
    unwrap(parker).disconnect();
    return HOLDFAST_OK;
  });
}
