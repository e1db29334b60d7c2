// Child processes that use a lock.
#pragma once

#include <string>

#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {

/// A process that holds the lock "k" until it gets a line. Then it releases the lock, reports the code of the release,
/// and ends.
class Holder : public Started {
 public:
  explicit Holder(Dict& dict)
      : Started(std::to_string(HOLDFAST_OK), [&dict](Channel& parent) {
          holdfast_lease lease{};
          parent.say(std::to_string(dict.try_lock("k", 0, &lease)));
          parent.hear();
          parent.say(std::to_string(dict.unlock("k", &lease)));
          return 0;
        }) {}
};

/// A process that queues for the lock "k" and never takes it.
class Queued : public Started {
 public:
  explicit Queued(Dict& dict)
      : Started(std::to_string(HOLDFAST_LOCKED), [&dict](Channel& parent) {
          Waiting waiting;
          holdfast_lease lease{};
          parent.say(std::to_string(waiting.once(dict, "k", &lease)));
          parent.hear();
          return 0;
        }) {}
};

}  // namespace holdfast::test
