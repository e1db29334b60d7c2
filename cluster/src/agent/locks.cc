#include "agent/locks.h"

#include <algorithm>
#include <limits>

namespace holdfast::agent {

Locks::Locks(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings)
    : store_(store), machine_(machine), clock_(clock), keys_(keys), settings_(settings), protocol_(keys, 0) {}

void Locks::begin(LeaseId lease, Epoch epoch) {
  end();
  protocol_ = Protocol(keys_, lease);
  epoch_ = epoch;
  next_poll_ = clock_.boot_ms() + settings_.poll_ms;
}

void Locks::adopt(LeaseId lease, Epoch epoch, const std::vector<std::string>& keys,
                  const std::vector<LockName>& standing) {
  begin(lease, epoch);
  const std::set<std::string> held(keys.begin(), keys.end());
  for (const LockName& name : standing) {
    if (held.contains(keys_.lock(name)))
      lock_of(name).stood = true;
    else
      machine_.drop(name);
  }
  for (const std::string& key : keys)
    if (const auto name = name_of(key)) lock_of(*name);
  std::vector<LockName> names;
  for (auto& [name, lock] : locks_) {
    lock.adopted = lock.unsure = true;
    lock.state = ++tickets_;
    names.push_back(name);
  }
  look_at_many(names);
}

void Locks::end() {
  epoch_ = 0;
  polls_ = 0;
  looks_.clear();
  looks_back_off_ = next_looks_ = 0;
  line_.clear();
  line_back_off_ = 0;
  locks_.clear();
  due_.clear();
}

void Locks::compare(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto name = name_of(key);
    if (!name) continue;
    Lock& lock = lock_of(*name);
    const Phase expected = keys_.lock_of(key) ? Phase::held : Phase::waiting;
    if (lock.request == 0 && lock.phase != expected) lock.unsure = true;
    consider(*name);
  }
  const std::set<std::string> there(keys.begin(), keys.end());
  std::vector<LockName> missing;
  for (const auto& [name, lock] : locks_)
    if (lock.request == 0 && lock.phase == Phase::held && !there.contains(keys_.lock(name))) missing.push_back(name);
  look_at_many(missing);
}

std::optional<LockName> Locks::name_of(const std::string& key) const {
  const auto name = keys_.lock_of(key);
  return name ? name : keys_.queue_of(key);
}

void Locks::want(const Want& want) {
  if (epoch_ == 0) return;
  if (draining_) return machine_.refuse(want.name, Refusal::unavailable);
  if (!keys_.check(want.name).ok()) return machine_.refuse(want.name, Refusal::too_long);
  lock_of(want.name).contender = want.contender;
  consider(want.name);
}

void Locks::drain() {
  draining_ = true;
  std::vector<LockName> names;
  for (const auto& [name, lock] : locks_) names.push_back(name);
  for (const LockName& name : names) consider(name);
}

void Locks::step() {
  const Milliseconds now = clock_.boot_ms();
  while (!due_.empty() && due_.begin()->first <= now) {
    const LockName name = due_.begin()->second;
    wake(locks_.at(name), 0);
    consider(name);
  }
  if (now >= next_looks_) send_looks();
  if (!line_.empty() && now >= next_in_line_) {
    next_in_line_ = now + kBackOffMax;  // an answer may make this earlier
    let_next();
  }
  if (epoch_ != 0 && now >= next_poll_) poll();
}

Milliseconds Locks::due() const {
  if (epoch_ == 0) return std::numeric_limits<Milliseconds>::max();
  Milliseconds due = next_poll_;
  if (!due_.empty()) due = std::min(due, due_.begin()->first);
  if (!looks_.empty() && polls_ == 0) due = std::min(due, next_looks_);
  if (!line_.empty()) due = std::min(due, next_in_line_);
  return due;
}

std::size_t Locks::count(Phase phase) const {
  return static_cast<std::size_t>(
      std::count_if(locks_.begin(), locks_.end(), [phase](const auto& one) { return one.second.phase == phase; }));
}

Locks::Lock& Locks::lock_of(const LockName& name) {
  Lock& lock = locks_[name];
  lock.name = name;
  return lock;
}

void Locks::wake(Lock& lock, Milliseconds when) {
  if (lock.due != 0) due_.erase({lock.due, lock.name});
  lock.due = when;
  if (when != 0) due_.insert({when, lock.name});
}

void Locks::forget(const LockName& name) {
  wake(locks_.at(name), 0);
  locks_.erase(name);
}

void Locks::consider(const LockName& name) {
  const auto found = locks_.find(name);
  if (found == locks_.end() || machine_.superseded()) return;
  Lock& lock = found->second;
  if (lock.request != 0 || lock.adopted) return;
  if (lock.refused) {
    if (machine_.use(name).tries) machine_.refuse(name, Refusal::unavailable);
    return;
  }
  const Milliseconds now = clock_.boot_ms();
  if (now < lock.paused) return wake(lock, lock.paused);
  if (lock.unsure) return look(lock);
  const Use use = machine_.use(lock.name);
  if (!use.known) return wake(lock, now + settings_.linger_ms);
  if (lock.phase != Phase::held && use.stands) {
    machine_.drop(lock.name);  // an earlier agent was about to grant it, but the store has taken it back since then
    return wake(lock, now + settings_.linger_ms);
  }
  switch (lock.phase) {
    case Phase::absent:
      return consider_absent(lock, use);
    case Phase::waiting:
      return consider_waiting(lock, use);
    case Phase::held:
      return consider_held(lock, use);
  }
}

void Locks::consider_absent(Lock& lock, const Use& use) {
  if (!draining_ && (use.waits || use.tries)) return ask(lock, !use.waits);
  forget(lock.name);
}

void Locks::consider_waiting(Lock& lock, const Use& use) {
  if (use.tries) machine_.refuse(lock.name, Refusal::held);
  if (!use.waits || draining_) return leave(lock);
  wake(lock, clock_.boot_ms() + settings_.linger_ms);
}

void Locks::consider_held(Lock& lock, const Use& use) {
  // The lock comes from an earlier agent. Since it stands, no transaction that gives the lock away was sent.
  if (!lock.stands && use.stands) {
    lock.stands = true;
    lock.giving = lock.given_once = false;
    lock.stood_at = lock.grant;
  }
  if (lock.stands) return consider_standing(lock);
  if (draining_ || (!use.waits && !use.tries)) lock.giving = true;
  if (lock.grant >= kRevisionEnd) {
    machine_.refuse(lock.name, Refusal::exhausted);
    lock.giving = true;
  }
  if (lock.giving) return give(lock);
  if (lock.given_once) return touch(lock);
  stand(lock);
}

// Makes the lock stand. Never does this twice at the same revision, because the machine may have forgotten which
// fencing tokens it has given out.
void Locks::stand(Lock& lock) {
  if (lock.stood_at == lock.grant) return touch(lock);
  lock.stood_at = lock.grant;
  lock.grants = lock.why_of = 0;
  lock.why_due = 0;
  lock.turn = ++tickets_;
  lock.since = clock_.boot_ms();
  if (lock.waited_since != 0) lock.waited_since = lock.since;
  lock.stands = machine_.grant(lock.name, epoch_, lock.grant);
  if (lock.stands) return consider_standing(lock);
  wake(lock, clock_.boot_ms() + settings_.poll_ms);  // no memory, or a process is stopped in the dictionary
}

void Locks::consider_standing(Lock& lock) {
  const Use use = machine_.use(lock.name);
  if (use.grants > kGrantsMax / 2) return touch(lock);
  if (report_why(lock, use)) return;
  // Programs that wait ahead of the agent may still need new fencing tokens.
  if (lock.recalled) return wake(lock, clock_.boot_ms() + settings_.linger_ms);
  if (draining_) return recall(lock);
  if (lock.queue.unknown()) return look(lock);
  if (lock.queue.empty()) return consider_idle(lock, use);
  const Milliseconds now = clock_.boot_ms();
  if (lock.waited_since == 0) lock.waited_since = now;
  const Milliseconds end = std::min(lock.waited_since + settings_.slice_ms, lock.since + settings_.max_hold_ms);
  if (now >= end || (!use.held && !use.waits && !use.tries)) return recall(lock);
  wake(lock, end);
}

void Locks::consider_idle(Lock& lock, const Use& use) {
  const bool used = use.held || use.waits || use.tries || use.grants != lock.grants;
  const Milliseconds now = clock_.boot_ms();
  lock.grants = use.grants;
  if (used || now < lock.since + settings_.linger_ms || !machine_.try_recall(lock.name))
    return wake(lock, now + settings_.linger_ms);
  lock.stands = false;
  lock.giving = true;
  give(lock);
}

// Tells the store the reason why the holder has the lock. A program can set its reason only after it has got the lock.
// The reason is worth a request only if the program keeps the lock for a while.
bool Locks::report_why(Lock& lock, const Use& use) {
  const Milliseconds now = clock_.boot_ms();
  if (use.grants != lock.why_of) {
    lock.why_of = use.grants;
    lock.why_due = now + settings_.linger_ms;
    return false;
  }
  if (!use.held || lock.why_due == 0 || now < lock.why_due || !line_.empty()) return false;
  lock.why_due = 0;
  Contender holder = machine_.holder(lock.name);
  if (holder.why.empty() || holder == lock.reported) return false;
  lock.contender = std::move(holder);
  touch(lock);
  return true;
}

void Locks::recall(Lock& lock) {
  lock.recalled = true;
  machine_.recall(lock.name, [this, name = lock.name, turn = lock.turn] {
    const auto found = locks_.find(name);
    if (found == locks_.end() || !found->second.recalled || found->second.turn != turn) return;
    Lock& recalled = found->second;
    recalled.recalled = false;
    recalled.stands = false;
    recalled.giving = true;
    consider(name);
  });
}

void Locks::give(Lock& lock) {
  if (lock.queue.unknown()) return look(lock);
  if (!lock.queue.empty()) return transfer(lock);
  if (!draining_ && machine_.use(lock.name).waits && lock.grant < kRevisionEnd) {
    lock.giving = false;  // the machines that would have got the lock have left the queue
    return consider_held(lock, machine_.use(lock.name));
  }
  if (lock.place != 0) return leave(lock);
  release(lock);
}

}  // namespace holdfast::agent
