// Calls for the holders of locks and permits, and their reasons. Each function checks its arguments, makes one call to
// the core, and converts the result.
#include "lock/lock_info.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "capi/handle.h"
#include "dict/expiry.h"
#include "platform/platform.h"

using namespace holdfast;
using namespace holdfast::capi;

static_assert(HOLDFAST_WHY_MAX == kReasonMax);
static_assert(sizeof(holdfast_holder::why) == sizeof(HolderInfo::reason));
static_assert(sizeof(holdfast_holder::program) == sizeof(HolderInfo::program));

namespace {

/// Holders beyond this number are only counted.
constexpr std::size_t kHoldersAtOnce = HOLDFAST_HOLDERS_MAX;

void fill(holdfast_holder& out, const HolderInfo& found, const HolderCount& count) {
  const double now = static_cast<double>(platform::monotonic_ns()) / 1e9;
  out = {};
  out.owner = found.lease.owner;
  out.sequence = found.lease.sequence;
  out.held = std::max(now - static_cast<double>(found.since_ns) / 1e9, 0.0);
  if (found.end_ms != kExpiryNever)
    out.remaining = std::max(static_cast<double>(found.end_ms) / 1e3 - now, 0.001);  // 0 would mean "never"
  out.pid = found.pid;
  out.worker = found.worker;
  out.waiters = count.waiters;
  static_assert(static_cast<int>(Liveness::dead) == 0 && static_cast<int>(Liveness::unknown) == 2);
  out.alive = static_cast<uint32_t>(found.liveness);
  out.permits = found.permits;
  std::memcpy(out.program, found.program.data(), sizeof out.program);
  std::memcpy(out.why, found.reason.data(), sizeof out.why);
  out.kind = static_cast<uint32_t>(found.kind);
  out.revision = found.revision;
}

void fill(holdfast_waiter& out, const WaiterInfo& found) {
  const double now = static_cast<double>(platform::monotonic_ns()) / 1e9;
  out = {.owner = found.owner,
         .waited = std::max(now - static_cast<double>(found.arrival_ns) / 1e9, 0.0),
         .want = found.want,
         .watches = found.watches ? 1U : 0U};
}

}  // namespace

int holdfast_lock_explain(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                          const char* why, size_t length) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (length > HOLDFAST_WHY_MAX) {
      return fail({Code::invalid, "bad why: expected at most " + std::to_string(HOLDFAST_WHY_MAX) + " bytes, got " +
                                      std::to_string(length)});
    }
    const Code code = explain(unwrap(dict), {key, key_length}, {lease->owner, lease->sequence}, {why, length});
    return outcome(code, unwrap(dict));
  });
}

int holdfast_lock_holder(holdfast_dict* dict, const char* key, size_t key_length, holdfast_holder* holder) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    HolderInfo found;
    HolderCount count;
    const Code code = find_holders(unwrap(dict), {key, key_length}, {&found, 1}, count);
    *holder = {};
    if (code != Code::ok) return outcome(code, unwrap(dict));
    if (count.holders == 0) return fail(Code::not_found);
    fill(*holder, found, count);
    return HOLDFAST_OK;
  });
}

int holdfast_holders(holdfast_dict* dict, const char* key, size_t key_length, holdfast_holder* holders, uint32_t max,
                     uint32_t* count, uint32_t* waiters) {
  return guarded([&]() -> int {
    *count = 0;
    *waiters = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    std::vector<HolderInfo> found(std::min<std::size_t>(max, kHoldersAtOnce));
    HolderCount counted;
    const Code code = find_holders(unwrap(dict), {key, key_length}, found, counted);
    if (code != Code::ok) return outcome(code, unwrap(dict));
    *count = counted.holders;
    *waiters = counted.waiters;
    for (std::size_t i = 0; i < found.size() && i < counted.holders; ++i) fill(holders[i], found[i], counted);
    return HOLDFAST_OK;
  });
}

int holdfast_look(holdfast_dict* dict, const char* key, size_t key_length, holdfast_holder* holders,
                  uint32_t max_holders, uint32_t* holder_count, holdfast_waiter* waiters, size_t waiter_size,
                  uint32_t max_waiters, uint32_t* waiter_count) {
  return guarded([&]() -> int {
    *holder_count = 0;
    *waiter_count = 0;
    if (const int bad = check_key(key, key_length)) return bad;
    if (waiter_size != sizeof(holdfast_waiter))
      return fail_number("waiter_size", waiter_size, "sizeof(holdfast_waiter)");
    std::vector<HolderInfo> holding(std::min<std::size_t>(max_holders, kHoldersAtOnce));
    std::vector<WaiterInfo> waiting(std::min<std::size_t>(max_waiters, kHoldersAtOnce));
    HolderCount counted;
    const Code code = peek_holders(unwrap(dict), {key, key_length}, holding, waiting, counted);
    if (code != Code::ok) return outcome(code, unwrap(dict));
    *holder_count = counted.holders;
    *waiter_count = counted.waiters;
    for (std::size_t i = 0; i < holding.size() && i < counted.holders; ++i) fill(holders[i], holding[i], counted);
    for (std::size_t i = 0; i < waiting.size() && i < counted.waiters; ++i) fill(waiters[i], waiting[i]);
    return HOLDFAST_OK;
  });
}
