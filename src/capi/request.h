// Translates arguments of the C API into requests of the core.
#pragma once

#include <cstdint>

#include "holdfast.h"
#include "lock/request.h"

namespace holdfast::capi {

inline HoldsLocks to_holds(std::int32_t holds) noexcept {
  holds &= ~HOLDFAST_HOLDS_ITSELF;
  if (holds == HOLDFAST_HOLDS_NOTHING) return HoldsLocks::nothing;
  return holds == HOLDFAST_HOLDS_EVERYTHING ? HoldsLocks::everything : HoldsLocks::something;
}

/// Makes the request for an attempt. `how` is a combination of flags of holdfast_how.
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
          .timeout = wait.timeout > 0 ? wait.timeout : 0,  // also 0 for NaN
          .holds = to_holds(wait.holds),
          .may_hold_it = (wait.holds & HOLDFAST_HOLDS_ITSELF) != 0,
          .tries = wait.tries != 0};
}

inline constexpr const char* kBadWaiter = "bad waiter: expected a number from holdfast_waiter_open";

inline WaitStep step_of(holdfast_wait& wait) noexcept {
  return {*reinterpret_cast<Parker*>(wait.parker), wait.waiter, wait.sleep};
}

/// Adds the wanted permits to the request, or returns INVALID. `kind` is a holdfast_permits_kind.
int want_permits(int kind, std::uint32_t want, std::uint32_t total, Request& request);

/// Returns the code of a reader's attempt to become the writer, and keeps a message if the code needs one. `has_cycle`
/// says that the code is deadlock because of a cycle of waits.
int outcome_of_upgrade(Code code, Dictionary& dictionary, bool has_cycle) noexcept;

}  // namespace holdfast::capi
