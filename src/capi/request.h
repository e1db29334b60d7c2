// The requests of the C ABI as those of the core.
#pragma once

#include "base/probe.h"
#include "capi/handle.h"
#include "holdfast.h"
#include "lock/lease.h"

namespace holdfast::capi {

inline HoldsLocks held_by_task(const holdfast_wait& wait) noexcept {
  if (wait.holds == HOLDFAST_HOLDS_NOTHING) return HoldsLocks::nothing;
  return wait.holds == HOLDFAST_HOLDS_EVERYTHING ? HoldsLocks::everything : HoldsLocks::something;
}

/// Of an attempt. `how`: holdfast_how, added up.
inline Request request_of(int how, std::uint32_t task, double exptime) noexcept {
  return {.exptime = exptime,
          .holder_task = task,
          .fair = (how & HOLDFAST_HOW_FAIR) != 0,
          .waits_next = (how & HOLDFAST_HOW_FIRST) != 0};
}

inline Request request_of(const holdfast_wait& wait, double exptime) noexcept {
  return {.exptime = exptime,
          .holder_task = wait.holder_task,
          .task = wait.task,
          .fair = wait.fair != 0,
          .timeout = wait.timeout > 0 ? wait.timeout : 0,  // 0 also for what is not a number
          .holds = held_by_task(wait),
          .tries = wait.tries != 0};
}

inline WaitStep step_of(holdfast_wait& wait) noexcept {
  return {*reinterpret_cast<Parker*>(wait.parker), wait.waiter, wait.sleep};
}

/// Tells tracers of a grant, of a lock or of permits.
inline void probe_acquire([[maybe_unused]] holdfast_dict* dict, [[maybe_unused]] const char* key,
                          [[maybe_unused]] size_t key_length, [[maybe_unused]] const holdfast_lease& lease) noexcept {
  HOLDFAST_PROBE5(acquire, unwrap(dict).name().c_str(), key, key_length, lease.owner, lease.sequence);
}

}  // namespace holdfast::capi
