#include "agent/queue.h"

#include <algorithm>

namespace holdfast::agent {

void Queue::learn(std::vector<Waiter> waiters, Revision complete) {
  if (complete < complete_) return;
  std::sort(waiters.begin(), waiters.end(), [](Waiter a, Waiter b) { return a.since < b.since; });
  waiters_ = std::move(waiters);
  complete_ = complete;
}

void Queue::note(Waiter first) {
  if (first.since <= complete_) {
    if (std::find(waiters_.begin(), waiters_.end(), first) == waiters_.end()) complete_ = 0;
    return;
  }
  std::erase_if(waiters_, [&](Waiter known) { return known.since <= first.since; });
  waiters_.insert(waiters_.begin(), first);
  complete_ = first.since;
}

void Queue::forget(Waiter waiter) {
  std::erase(waiters_, waiter);
  complete_ = 0;
}

bool Queue::unknown() const { return waiters_.empty() ? complete_ < gained_ : waiters_.front().since > complete_; }

}  // namespace holdfast::agent
