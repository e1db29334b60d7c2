// Who holds something, and why.
#include "lock/holder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "capi/handle.h"
#include "dict/expiry.h"
#include "platform/platform.h"

using holdfast::Code;
using holdfast::Holder;
using holdfast::capi::check_key;
using holdfast::capi::fail;
using holdfast::capi::guarded;
using holdfast::capi::outcome;
using holdfast::capi::unwrap;

static_assert(HOLDFAST_WHY_MAX == holdfast::kWhyMax);
static_assert(sizeof(holdfast_holder::why) == sizeof(Holder::why));
static_assert(sizeof(holdfast_holder::program) == sizeof(Holder::program));

int holdfast_lock_explain(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                          const char* why, size_t length) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (length > HOLDFAST_WHY_MAX) {
      return fail({Code::invalid, "bad why of " + std::to_string(length) + " bytes: expected at most " +
                                      std::to_string(HOLDFAST_WHY_MAX)});
    }
    const Code code = explain(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, {why, length});
    return outcome(code, unwrap(dict));
  });
}

int holdfast_lock_holder(holdfast_dict* dict, const char* key, size_t key_length, holdfast_holder* holder) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    Holder found;
    const Code code = find_holder(unwrap(dict), {key, key_length}, found);
    *holder = {};
    if (code != Code::ok) return outcome(code, unwrap(dict));
    const double now = static_cast<double>(holdfast::platform::monotonic_ns()) / 1e9;
    holder->owner = found.lease.owner;
    holder->sequence = found.lease.sequence;
    holder->held = std::max(now - static_cast<double>(found.since_ms) / 1e3, 0.0);
    if (found.end_ms != holdfast::kExpiryNever)
      holder->remaining = std::max(static_cast<double>(found.end_ms) / 1e3 - now, 0.001);  // 0 would say "never"
    holder->pid = found.pid;
    holder->worker = found.worker;
    holder->waiters = found.waiters;
    static_assert(static_cast<int>(holdfast::Liveness::dead) == 0 &&
                  static_cast<int>(holdfast::Liveness::unknown) == 2);
    holder->alive = static_cast<uint32_t>(found.liveness);
    std::memcpy(holder->program, found.program.data(), sizeof holder->program);
    std::memcpy(holder->why, found.why.data(), sizeof holder->why);
    return HOLDFAST_OK;
  });
}
