// What a holdfast_wait says of the one who waits.
#pragma once

#include "holdfast.h"
#include "lock/lease.h"

namespace holdfast::capi {

inline Stake stake_of(const holdfast_wait& wait) noexcept {
  if (wait.holds == 0) return Stake::nothing;
  return wait.holds == 2 ? Stake::everything : Stake::something;
}

inline Claim claim_of(const holdfast_wait& wait, double exptime) noexcept {
  return {.exptime = exptime,
          .holder_agent = wait.holder_agent,
          .agent = wait.agent,
          .fair = wait.fair != 0,
          .timeout = wait.timeout > 0 ? wait.timeout : 0,  // 0 also for what is not a number
          .stake = stake_of(wait)};
}

}  // namespace holdfast::capi
