// Sends the transactions of a lock. No transaction of a lock is sent while another one is unanswered.
#include <algorithm>
#include <utility>

#include "agent/locks.h"

namespace holdfast::agent {

namespace {

/// The maximum pause between notes to one holder about one queue position. No holder in a benchmark keeps a lock this
/// long.
constexpr Milliseconds kNoteAgainMax = 30'000;

}  // namespace

void Locks::send(Lock& lock, Change change, Then then) {
  if (machine_.superseded()) return;
  const std::uint64_t ticket = ++tickets_;
  lock.request = lock.state = ticket;
  wake(lock, 0);
  change.wanted = [this, name = lock.name, ticket] {
    const auto found = locks_.find(name);
    return found != locks_.end() && found->second.request == ticket;
  };
  store_.transact(std::move(change), [this, name = lock.name, ticket, then = std::move(then)](const Answer& answer) {
    const auto found = locks_.find(name);
    if (found == locks_.end() || found->second.request != ticket) return;  // rule 4
    Lock& asked = found->second;
    asked.request = 0;
    asked.state = ++tickets_;
    if (answer.outcome == Outcome::answered) {
      asked.unsure = false;
      then(asked, answer);
    } else {
      failed(asked, answer);
    }
    take_bell(asked);
    consider(name);
  });
}

std::string Locks::document(const Lock& lock) const {
  const Milliseconds when = clock_.wall_ms() - lock.contender.held;
  return write_document({settings_.host, settings_.machine, epoch_, when, lock.name, lock.contender});
}

void Locks::ask(Lock& lock, bool only_try) {
  Change change = only_try ? protocol_.try_once(lock.name, document(lock)) : protocol_.ask(lock.name, document(lock));
  send(lock, std::move(change), [this, only_try, contender = lock.contender](Lock& asked, const Answer& answer) {
    if (answer.guarded) {
      Queue queue(answer.revision);
      queue.learn({}, answer.revision);
      ++counters_.granted_by_answer;
      gain(asked, answer.revision, std::move(queue));
      asked.reported = contender;
      return;
    }
    learn(asked, protocol_.view(answer, 0));
    if (only_try && asked.phase != Phase::held) machine_.refuse(asked.name, Refusal::held);
  });
}

void Locks::leave(Lock& lock) {
  send(lock, protocol_.leave(lock.name, lock.place), [this](Lock& asked, const Answer& answer) {
    if (!answer.guarded) return learn(asked, protocol_.view(answer, 0));
    worked(asked);
    asked.place = 0;
    if (asked.phase == Phase::waiting) asked.phase = Phase::absent;
  });
}

void Locks::claim(Lock& lock) {
  Change change = protocol_.claim(lock.name, lock.place, document(lock));
  send(lock, std::move(change), [this, contender = lock.contender](Lock& asked, const Answer& answer) {
    if (!answer.guarded) return learn(asked, protocol_.view(answer, 0));
    ++counters_.granted_by_answer;
    gain(asked, answer.revision, Queue(answer.revision));
    asked.reported = contender;
  });
}

void Locks::touch(Lock& lock) {
  Change change = protocol_.touch(lock.name, lock.grant, document(lock));
  send(lock, std::move(change), [this, contender = lock.contender](Lock& asked, const Answer& answer) {
    const bool giving = asked.giving;
    learn(asked, protocol_.view(answer, 0));
    if (!answer.guarded) return;
    asked.reported = contender;
    asked.giving = giving;
    if (!asked.stands) return worked(asked);
    if (machine_.grant(asked.name, epoch_, asked.grant)) {
      worked(asked);
      asked.stood_at = asked.grant;
    } else {
      pause(asked);  // a process is stopped in a change: the lock stands as before, with its remaining tokens
    }
  });
}

void Locks::pause(Lock& lock) {
  lock.back_off = next_back_off(lock.back_off);
  lock.paused = clock_.boot_ms() + lock.back_off;
  wake(lock, lock.paused);
}

void Locks::worked(Lock& lock) {
  lock.back_off = lock.paused = 0;
  lock.refused = false;  // the lock leaves the line
  if (!std::exchange(lock.tried, false)) return;
  line_back_off_ = 0;
  let_next();
  let_next();
}

void Locks::line_up(Lock& lock) {
  if (line_.empty() || lock.tried) {
    line_back_off_ = next_back_off(line_back_off_);
    next_in_line_ = clock_.boot_ms() + line_back_off_;
  }
  lock.tried = false;
  if (!std::exchange(lock.refused, true)) line_.push_back(lock.name);
  lock.paused = 0;
  wake(lock, 0);
}

// Lets a lock try again. Looks at the lock first, because the refused request may no longer be useful, and a note
// depends on the holder.
void Locks::let_next() {
  while (!line_.empty()) {
    const LockName name = std::move(line_.front());
    line_.pop_front();
    const auto found = locks_.find(name);
    if (found == locks_.end() || !found->second.refused) continue;
    Lock& next = found->second;
    const Use use = machine_.use(name);
    if (next.phase == Phase::absent && use.known && !use.stands && !use.waits && !use.tries) {
      forget(name);  // nobody wants it any more
      continue;
    }
    next.refused = false;
    next.tried = next.unsure = true;
    return wake(next, clock_.boot_ms());
  }
}

void Locks::look(Lock& lock) {
  send(lock, protocol_.look(lock.name),
       [this](Lock& asked, const Answer& answer) { learn(asked, protocol_.view(answer, 0)); });
}

void Locks::transfer(Lock& lock) {
  const bool again = !draining_ && machine_.use(lock.name).waits;
  const Waiter to = lock.queue.first();
  lock.given_once = true;
  Change change = protocol_.transfer(lock.name, lock.grant, lock.queue, again, document(lock));
  send(lock, std::move(change), [this, again](Lock& asked, const Answer& answer) {
    if (!answer.guarded) return learn(asked, protocol_.view(answer, 0));
    ++counters_.transfers;
    worked(asked);
    leave_held(asked);
    if (again && !answer.found.empty() && !answer.found.front().empty())
      wait(asked, answer.found.front().front().created, answer.revision);
  });
  lock.queue.forget(to);  // if the store refuses the transfer, the waiter's lease may be dead
}

void Locks::release(Lock& lock) {
  lock.given_once = true;
  send(lock, protocol_.release(lock.name, lock.grant), [this](Lock& asked, const Answer& answer) {
    if (!answer.guarded) {
      learn(asked, protocol_.view(answer, 0));
      // The queue contains a key that belongs to no machine, so the lock cannot be given away.
      if (asked.phase == Phase::held && asked.queue.empty() && !asked.queue.unknown()) pause(asked);
      return;
    }
    ++counters_.releases;
    worked(asked);
    leave_held(asked);
  });
}

// Notifies the holder that this machine waits. Once the store has the note, the holder's agent knows about the wait,
// and if that agent is restarted, it reads the queue. So repeating the note is only a second line of defence.
void Locks::note_holder(Lock& lock, const Record& held) {
  const Milliseconds now = clock_.boot_ms();
  const bool again = lock.noted == held.modified;
  if (lock.refused) return;
  if (again && now < lock.note_due) return;
  lock.noted = held.modified;
  lock.note_back_off = again ? std::min(2 * lock.note_back_off, kNoteAgainMax) : settings_.poll_ms;
  lock.note_due = now + lock.note_back_off;
  Change change = protocol_.note(lock.name, held, lock.place);
  change.wanted = [this, epoch = epoch_] { return epoch == epoch_; };
  store_.transact(std::move(change), [this, name = lock.name](const Answer& answer) {
    const auto found = locks_.find(name);
    if (found == locks_.end() || found->second.phase != Phase::waiting) return;
    if (answer.outcome == Outcome::answered) return worked(found->second);
    found->second.noted = 0;
    if (is_refused_to_all(answer)) line_up(found->second);
  });
}

}  // namespace holdfast::agent
