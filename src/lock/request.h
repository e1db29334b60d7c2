// Lease and Request: the proof of a grant and the terms of a request, for locks and permits alike.
#pragma once

#include <cstdint>

#include "base/token.h"
#include "dict/wait_queue.h"
#include "wait/task_id.h"

namespace holdfast {

class Parker;

/// How long a prompt waiter may take to claim what a release granted to it.
inline constexpr double kClaimSeconds = static_cast<double>(kClaimNs) / 1e9;

/// The proof of a grant: its holder, and its fencing number.
struct Lease {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
};

/// The terms of a request.
struct Request {
  double exptime;
  std::uint32_t holder_task = 0;           // the task that becomes the holder; 0: none
  std::uint32_t task = 0;                  // the task that waits; 0: not known
  bool fair = false;                       // overtakes no waiter, and is not overtaken
  double timeout = 0;                      // seconds after which it stops waiting; 0: not known
  HoldsLocks holds = HoldsLocks::nothing;  // what the waiting task may hold
  bool tries = false;                      // its wait ends when another machine is found to have the lock
  bool waits_next = false;                 // an attempt that a wait follows if it is refused
};

/// The waiter that takes a step of its wait.
struct WaitStep {
  Parker& parker;
  std::uint32_t waiter;
  double& sleep;  // out: seconds after which it takes the next step, if nothing wakes it before
};

}  // namespace holdfast
