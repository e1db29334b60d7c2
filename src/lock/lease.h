// The proof that something is held, and what a request asks for: the words that all primitives share.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/wait_queue.h"
#include "wait/task_id.h"

namespace holdfast {

/// How long a waiter may take to claim what a release granted to it.
inline constexpr double kClaimSeconds = static_cast<double>(kClaimNs) / 1e9;

struct Lease {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
};

/// What a request asks for.
struct Claim {
  double exptime;
  std::uint32_t holder_task = 0;           // is taken for the holder; 0: none
  std::uint32_t task = 0;                  // waits; 0: not told
  bool fair = false;                       // waits its turn, and is not overtaken
  double timeout = 0;                      // seconds after which it stops waiting; 0: not known
  HoldsLocks holds = HoldsLocks::nothing;  // what the waiting task may hold
};

}  // namespace holdfast
