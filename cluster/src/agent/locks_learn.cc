// Handles what the store's answers, looks and notifications say about a lock.
#include <algorithm>
#include <utility>

#include "agent/locks.h"

namespace holdfast::agent {

void Locks::failed(Lock& lock, const Answer& answer) {
  pause(lock);
  if (is_refused_to_all(answer)) line_up(lock);
  if (answer.outcome == Outcome::unknown) {
    ++counters_.unsure;
    lock.unsure = true;
  }
  if (answer.fault == Fault::no_lease) {
    lock.unsure = true;
    dead_lease_();
  }
  if (machine_.use(lock.name).tries) machine_.refuse(lock.name, Refusal::unavailable);
}

void Locks::gain(Lock& lock, Revision grant, Queue queue) {
  worked(lock);
  lock.phase = Phase::held;
  lock.grant = grant;
  lock.stands = lock.recalled = lock.giving = lock.given_once = false;
  lock.queue = std::move(queue);
  lock.reported = lock.seen = {};
  lock.place = 0;
  lock.since = clock_.boot_ms();
  take_note(lock);
  lock.waited_since = lock.queue.empty() ? 0 : lock.since;
}

void Locks::wait(Lock& lock, Revision place, Revision asked) {
  lock.phase = Phase::waiting;
  if (place != lock.place) {
    worked(lock);
    lock.noted = 0;
  }
  lock.place = place;
  lock.asked = asked;
}

/// Records that this machine does not have the lock.
void Locks::leave_held(Lock& lock) {
  lock.phase = Phase::absent;
  lock.stands = lock.recalled = lock.giving = lock.given_once = false;
  lock.waited_since = 0;
}

/// Handles a Note that arrived early, before the answer that reported the Note's grant.
void Locks::take_note(Lock& lock) {
  if (!lock.note || lock.note->grant != lock.grant) return;
  lock.queue.note(lock.note->first);
  lock.note.reset();
}

void Locks::learn(Lock& lock, const View& view) {
  if (view.held_by(protocol_.self())) return lock.phase == Phase::held ? learn_held(lock, view) : gain_seen(lock, view);
  if (lock.stands || lock.stood) {
    lost(lock);
    lost_unasked_ = lost_unasked_ || lock.broken != lock.grant;
  }
  lock.adopted = false;
  leave_held(lock);
  if (view.own) learn_waiting(lock, view);
}

void Locks::lost(Lock& lock) {
  ++counters_.dropped;
  machine_.drop(lock.name);
  lock.stood = false;
}

/// Records that the store shows the lock on this machine's lease. If the lock stood under an earlier agent, that agent
/// sent no transaction that gives the lock away; otherwise, it may have sent one (rule 3 in agent/locks.h).
void Locks::gain_seen(Lock& lock, const View& view) {
  Queue queue(view.lock->modified);
  queue.learn(view.waiters, view.complete);
  gain(lock, view.lock->modified, std::move(queue));
  if (view.own) lock.place = view.own->created;
  if (!std::exchange(lock.adopted, false)) {
    ++counters_.granted_by_look;
    return;
  }
  lock.reported = read_document(view.lock->value).contender;
  lock.stands = std::exchange(lock.stood, false);
  lock.given_once = !lock.stands;
  if (lock.stands) lock.stood_at = lock.grant;
}

void Locks::learn_held(Lock& lock, const View& view) {
  if (view.lock->modified != lock.grant) {
    // This agent or a later agent of this machine has touched the lock, which voids all earlier transactions. If this
    // agent was about to give the lock away, recall it again, because a later agent may have made it stand.
    lock.grant = view.lock->modified;
    lock.given_once = lock.giving = false;
  }
  lock.queue.learn(view.waiters, view.complete);
  lock.place = view.own ? view.own->created : 0;
  take_note(lock);
  if (!lock.queue.empty() && lock.waited_since == 0) lock.waited_since = clock_.boot_ms();
}

void Locks::learn_waiting(Lock& lock, const View& view) {
  wait(lock, view.own->created, std::max(lock.asked, view.revision));
  if (!view.first) return;
  if (view.lock)
    note_holder(lock, *view.lock);
  else if (!draining_ && machine_.use(lock.name).waits && lock.request == 0 && !lock.refused)
    claim(lock);
}

/// Handles a Grant. It counts only if it is later than everything that is known about the lock.
void Locks::take_bell(Lock& lock) {
  if (!lock.bell || lock.request != 0) return;
  const Grant grant = *std::exchange(lock.bell, std::nullopt);
  if (lock.phase == Phase::held ? lock.bell_revision <= lock.grant : lock.bell_revision <= lock.asked) return;
  if (lock.phase != Phase::waiting || lock.unsure) {
    lock.unsure = true;  // a notification is only a hint
    return;
  }
  Queue queue(lock.bell_revision);
  queue.learn(grant.next, grant.complete);
  ++counters_.granted_by_bell;
  lock.state = ++tickets_;
  gain(lock, lock.bell_revision, std::move(queue));
}

void Locks::ring(const Record& bell) {
  if (epoch_ == 0 || bell.key != keys_.bell(protocol_.self())) return;
  const Ring read = read_ring(bell.value, bell.modified);
  if (const auto* grant = std::get_if<Grant>(&read)) ring(*grant, bell.modified);
  if (const auto* note = std::get_if<Note>(&read)) ring(*note);
  if (const auto* broken = std::get_if<Broken>(&read)) ring(*broken);
}

void Locks::ring(const Grant& grant, Revision revision) {
  Lock& lock = lock_of(grant.name);
  if (lock.bell && lock.bell_revision > revision) return;
  lock.bell = grant;
  lock.bell_revision = revision;
  take_bell(lock);
  consider(grant.name);
}

void Locks::ring(const Note& note) {
  Lock& lock = lock_of(note.name);
  if (lock.phase == Phase::held && lock.grant == note.grant) {
    lock.queue.note(note.first);
    if (lock.waited_since == 0) lock.waited_since = clock_.boot_ms();
  } else if (lock.phase == Phase::absent && lock.request == 0) {
    lock.unsure = true;  // rule 7
  } else {
    lock.note = note;
  }
  consider(note.name);
}

void Locks::ring(const Broken& broken) {
  Lock& lock = lock_of(broken.name);
  lock.broken = broken.grant;
  if (lock.phase == Phase::held && lock.grant == broken.grant && lock.request == 0) lock.unsure = true;
  consider(broken.name);
}

}  // namespace holdfast::agent
