// Limits every wait with looks (reads of a lock and its queue). Notifications are hints, and a lost notification must
// not delay a waiter by more than a second.
#include <algorithm>
#include <utility>

#include "agent/locks.h"

namespace holdfast::agent {

namespace {

/// The number of locks that one transaction can check, because it has at most 128 steps.
constexpr std::size_t kPolledMax = 128 / kLookSteps;
/// The maximum number of bulk looks that run at the same time. More looks would not be answered sooner, and a busy
/// store would answer too late. No benchmark has an agent with enough locks to reach this limit, but engine_test.cc
/// has.
constexpr std::size_t kLooksAtOnce = 8;

}  // namespace

void Locks::poll() {
  next_poll_ = clock_.boot_ms() + settings_.poll_ms;
  if (machine_.superseded() || polls_ != 0 || !looks_.empty()) return;
  std::vector<LockName> names;
  for (const auto& [name, lock] : locks_)
    if (lock.phase == Phase::waiting && lock.request == 0) names.push_back(name);
  look_at_many(std::exchange(names, {}));
  // Check the locks in rotation, because waiters notify the holder, and the holder's own looks are only a second line
  // of defence.
  const bool all = std::exchange(lost_unasked_, false);
  const std::size_t most = all ? locks_.size() : kPolledMax;
  auto next = locks_.upper_bound(polled_);
  std::size_t reported = 0;
  for (std::size_t looked = 0; looked < locks_.size() && names.size() + reported < most; ++looked) {
    if (next == locks_.end()) next = locks_.begin();
    if (next->second.phase == Phase::held && next->second.request == 0) {
      polled_ = next->first;
      if (!all && report_holder(next->second))
        ++reported;
      else
        names.push_back(polled_);
    }
    ++next;
  }
  look_at_many(names);
}

// Splits the looks into requests. An agent that replaces another agent may have thousands of locks to check.
void Locks::look_at_many(const std::vector<LockName>& names) {
  for (std::size_t first = 0; first < names.size(); first += kPolledMax) {
    const std::size_t end = std::min(names.size(), first + kPolledMax);
    looks_.emplace_back(names.begin() + static_cast<std::ptrdiff_t>(first),
                        names.begin() + static_cast<std::ptrdiff_t>(end));
  }
  send_looks();
}

void Locks::send_looks() {
  while (!looks_.empty() && polls_ < kLooksAtOnce && clock_.boot_ms() >= next_looks_) {
    const std::vector<LockName> names = std::move(looks_.front());
    looks_.pop_front();
    poll_many(names);
  }
}

// The store may not know the present holder: a request for a lock describes the program that waited at that time, and a
// machine that got the lock by a transfer has described no program. A report is worth a request only if the same
// program has the lock at two successive checks.
bool Locks::report_holder(Lock& lock) {
  if (!lock.stands) return false;
  if (!lock.recalled && machine_.use(lock.name).held && machine_.orphaned(lock.name)) {
    recall(lock);  // the holder is dead, and nobody here wants the lock
    return true;
  }
  if (!line_.empty()) return false;  // the store accepts nothing new
  Contender holder = machine_.holder(lock.name);
  const bool stays = holder.pid != 0 && holder == lock.seen;
  lock.seen = holder;
  if (!stays || holder == lock.reported) return false;
  lock.contender = std::move(holder);
  touch(lock);
  return true;
}

// Sends a bulk look. The look may be queued first. In the meantime, locks may vanish, or other requests about them may
// be sent.
void Locks::poll_many(const std::vector<LockName>& names) {
  Change change;
  std::vector<std::pair<LockName, std::uint64_t>> looked;
  for (const LockName& name : names) {
    const auto found = locks_.find(name);
    if (found == locks_.end() || found->second.request != 0) continue;
    protocol_.add_look(name, change.then, kLookMax);
    looked.emplace_back(name, found->second.state);
  }
  if (looked.empty()) return;
  change.wanted = [this, epoch = epoch_] { return epoch == epoch_; };
  ++polls_;
  store_.transact(std::move(change), [this, epoch = epoch_, looked = std::move(looked)](const Answer& answer) {
    if (epoch != epoch_) return;
    --polls_;
    learn_many(looked, answer);
    send_looks();
  });
}

// Handles the answer to a bulk look. If the answer does not count for a known lock, the lock can wait for the next
// poll. Locks of an earlier agent are checked again until they are known.
void Locks::learn_many(const std::vector<std::pair<LockName, std::uint64_t>>& looked, const Answer& answer) {
  const bool answered = answer.outcome == Outcome::answered;
  std::vector<LockName> again;
  std::size_t at = 0;
  for (const auto& [name, state] : looked) {
    const std::size_t begin = std::exchange(at, at + kLookSteps);
    const auto found = locks_.find(name);
    if (found == locks_.end()) continue;
    Lock& lock = found->second;
    if (answered && lock.state == state && lock.request == 0) {
      if (lock.adopted) lock.unsure = false;
      learn(lock, protocol_.view(answer, begin));
      take_bell(lock);
      consider(name);
    } else if (lock.adopted) {
      again.push_back(name);
    }
  }
  if (!again.empty()) looks_.push_front(std::move(again));
  looks_back_off_ = answered ? 0 : next_back_off(looks_back_off_);
  next_looks_ = clock_.boot_ms() + looks_back_off_;
}

}  // namespace holdfast::agent
