// What proves that something is held, and what somebody wants: the words that all primitives share.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/wait_queue.h"
#include "lock/agent.h"

namespace holdfast {

/// How long a waiter may take to claim what a release granted to it.
inline constexpr double kClaimSeconds = static_cast<double>(kClaimNs) / 1e9;

struct Lease {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
};

/// What somebody wants.
struct Claim {
  double exptime;
  std::uint32_t holder_agent = 0;  // the coroutine that is to be taken for the holder; 0: none
  std::uint32_t agent = 0;         // the one that waits; 0: not told
  bool fair = false;               // waits its turn, and is not overtaken
  double timeout = 0;              // seconds after which it stops waiting; 0: not known
  Stake stake = Stake::nothing;    // of the one that waits
};

}  // namespace holdfast
