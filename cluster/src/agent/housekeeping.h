// The periodic work of an agent. It finds locks and queue entries that the machine has without the agent's knowledge,
// and notices if the machine's notification key (agent/ring.h) is dead.
//
// The store may execute a request, or a copy of it, long after the agent has stopped waiting for the answer. If the
// request is an "ask" (agent/protocol.h), this machine then has a lock, or a position in a queue, that nobody here
// wants. So the agent compares the keys that are attached to the lease with the known keys. It compares them often in
// the minute after a missing answer. At other times, it compares them once a minute, if the machine has got a lock
// since the last comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/clock.h"
#include "agent/locks.h"
#include "agent/machine.h"
#include "agent/store.h"

namespace holdfast::agent {

class Housekeeping {
 public:
  Housekeeping(Store& store, Machine& machine, Locks& locks, const Clock& clock,
               std::function<void(const std::string&)> warn);

  void step();
  Milliseconds due() const { return next_; }
  /// Returns the number of times that the notification key seemed dead.
  std::uint64_t dead_bells() const { return dead_bells_; }

 private:
  void compare();
  void look_at_bell();

  Store& store_;
  Machine& machine_;
  Locks& locks_;
  const Clock& clock_;
  std::function<void(const std::string&)> warn_;

  Milliseconds next_ = 0;
  Milliseconds next_compare_ = 0;
  Milliseconds next_bell_ = 0;
  Milliseconds unsure_until_ = 0;
  bool comparing_ = false;
  LockCounters compared_;
  LockCounters heard_;
  std::uint64_t dead_bells_ = 0;
};

}  // namespace holdfast::agent
