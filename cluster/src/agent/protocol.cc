#include "agent/protocol.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {

namespace {

/// Returns the Grant for the next holder. Its list of waiters has no gaps.
Grant grant_for(const LockName& name, const Queue& queue) {
  Grant grant{name, {queue.waiters().begin() + 1, queue.waiters().end()}, queue.complete()};
  if (grant.next.size() > kNextMax) {
    grant.next.resize(kNextMax);
    grant.complete = std::min(grant.complete, grant.next.back().since);
  }
  return grant;
}

}  // namespace

void Protocol::add_look(const LockName& name, std::vector<Step>& to, std::int64_t limit) const {
  to.push_back(Step::get(keys_->lock(name)));
  to.push_back(Step::get(keys_->place(name, self_)));
  to.push_back(Step::oldest(keys_->queue(name), limit));
}

View Protocol::view(const Answer& answer, std::size_t at) const {
  View view;
  view.revision = answer.revision;
  if (answer.found.size() < at + kLookSteps) return view;
  if (!answer.found[at].empty()) view.lock = answer.found[at].front();
  if (!answer.found[at + 1].empty()) view.own = answer.found[at + 1].front();
  const std::vector<Record>& queue = answer.found[at + 2];
  std::optional<LeaseId> first;
  for (const Record& place : queue) {
    const auto lease = keys_->waiter_of(place.key);
    if (!lease) continue;  // the key does not belong to a machine
    if (!first) first = lease;
    if (*lease != self_) view.waiters.push_back({place.created, *lease});
  }
  view.first = view.own && first == self_;
  view.complete = queue.size() < kLookMax ? answer.revision : queue.back().created;
  return view;
}

Change Protocol::ask(const LockName& name, const std::string& document) const {
  Change change = try_once(name, document);
  change.otherwise.insert(change.otherwise.begin(), Step::put(keys_->place(name, self_), document, self_));
  return change;
}

Change Protocol::try_once(const LockName& name, const std::string& document) const {
  Change change{{Guard::absent(keys_->lock(name)), Guard::none_below(keys_->queue(name))},
                {Step::put(keys_->lock(name), document, self_)},
                {}};
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::note(const LockName& name, const Record& lock, Revision since) const {
  const Note ring{name, lock.modified, {since, self_}};
  return {{Guard::unchanged(keys_->lock(name), lock.modified)},
          {Step::put(keys_->bell(lock.lease), write_ring(ring), lock.lease)},
          {}};
}

Change Protocol::hand_over(const LockName& name, Revision grant, Waiter to, Grant ring,
                           const std::string& document) const {
  Change change{{Guard::unchanged(keys_->lock(name), grant), Guard::created(keys_->place(name, to.lease), to.since)},
                {Step::put(keys_->lock(name), document, to.lease), Step::erase(keys_->place(name, to.lease)),
                 Step::put(keys_->bell(to.lease), write_ring(std::move(ring)), to.lease)},
                {}};
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::transfer(const LockName& name, Revision grant, const Queue& queue, bool again,
                          const std::string& document) const {
  Grant ring = grant_for(name, queue);
  if (again && ring.next.size() < kNextMax) ring.next.push_back({0, self_});
  Change change = hand_over(name, grant, queue.first(), std::move(ring), {});
  if (again)
    change.then.push_back(Step::put(keys_->place(name, self_), document, self_));
  else
    change.then.push_back(Step::erase(keys_->place(name, self_)));
  change.then.push_back(Step::get(keys_->place(name, self_)));
  return change;
}

Change Protocol::release(const LockName& name, Revision grant) const {
  Change change{{Guard::unchanged(keys_->lock(name), grant), Guard::none_below(keys_->queue(name))},
                {Step::erase(keys_->lock(name))},
                {}};
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::leave(const LockName& name, Revision since) const {
  Change change{{Guard::created(keys_->place(name, self_), since)}, {Step::erase(keys_->place(name, self_))}, {}};
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::claim(const LockName& name, Revision since, const std::string& document) const {
  Change change{{Guard::absent(keys_->lock(name)), Guard::created(keys_->place(name, self_), since)},
                {Step::put(keys_->lock(name), document, self_), Step::erase(keys_->place(name, self_))},
                {}};
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::touch(const LockName& name, Revision grant, const std::string& document) const {
  Change change{{Guard::unchanged(keys_->lock(name), grant)}, {Step::put(keys_->lock(name), document, self_)}, {}};
  add_look(name, change.then, kLookMax);
  add_look(name, change.otherwise, kLookMax);
  return change;
}

Change Protocol::look(const LockName& name) const {
  Change change;
  add_look(name, change.then, kLookMax);
  return change;
}

Change Protocol::break_grant(const LockName& name, const View& view, bool ring) const {
  const Record& lock = *view.lock;
  Change change = release(name, lock.modified);
  std::vector<Waiter> waiters = view.waiters;
  if (view.own) waiters.push_back({view.own->created, self_});
  Queue queue;
  queue.learn(std::move(waiters), view.complete);
  if (!queue.empty()) change = hand_over(name, lock.modified, queue.first(), grant_for(name, queue), {});
  // A transaction may put each key only once.
  if (ring && lock.lease != 0 && (queue.empty() || queue.first().lease != lock.lease))
    change.then.push_back(Step::put(keys_->bell(lock.lease), write_ring(Broken{name, lock.modified}), lock.lease));
  return change;
}

}  // namespace holdfast::agent
