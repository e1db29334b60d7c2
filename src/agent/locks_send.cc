// The transactions of a lock. One runs at a time: none is sent while the answer of another is to come.
#include <algorithm>
#include <utility>

#include "agent/locks.h"

namespace holdfast::agent {

namespace {

/// Between notes to one holder about one place in its queue.
constexpr Milliseconds kNoteAgainMax = 30'000;

}  // namespace

void Locks::send(Lock& lock, Change change, Then then) {
  if (machine_.superseded()) return;
  const std::uint64_t ticket = ++tickets_;
  lock.request = lock.state = ticket;
  wake(lock, 0);
  store_.transact(std::move(change), [this, name = lock.name, ticket, then = std::move(then)](const Answer& answer) {
    const auto found = locks_.find(name);
    if (found == locks_.end() || found->second.request != ticket) return;  // rule 4
    Lock& asked = found->second;
    asked.request = 0;
    asked.state = ++tickets_;
    if (answer.outcome == Outcome::answered) {
      asked.unsure = false;
      asked.back_off = 0;
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
      asked.told = contender;
      return;
    }
    learn(asked, protocol_.view(answer, 0));
    if (only_try && asked.phase != Phase::held) machine_.refuse(asked.name, Refusal::held);
  });
}

void Locks::leave(Lock& lock) {
  send(lock, protocol_.leave(lock.name, lock.place), [this](Lock& asked, const Answer& answer) {
    if (!answer.guarded) return learn(asked, protocol_.view(answer, 0));
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
    asked.told = contender;
  });
}

void Locks::touch(Lock& lock) {
  Change change = protocol_.touch(lock.name, lock.grant, document(lock));
  send(lock, std::move(change), [this, contender = lock.contender](Lock& asked, const Answer& answer) {
    const bool giving = asked.giving;
    learn(asked, protocol_.view(answer, 0));
    if (!answer.guarded) return;
    asked.told = contender;
    asked.giving = giving;
    if (!asked.stands) return;
    if (machine_.grant(asked.name, epoch_, asked.grant)) {
      asked.stood_at = asked.grant;
    } else {
      pause(asked);  // a process is stopped there: it stands as before, with the numbers that are left
    }
  });
}

void Locks::pause(Lock& lock) {
  lock.in_vain = next_back_off(lock.in_vain);
  lock.back_off = lock.in_vain;
  wake(lock, clock_.boot_ms() + lock.back_off);
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
    leave_held(asked);
    if (again && !answer.found.empty() && !answer.found.front().empty())
      wait(asked, answer.found.front().front().created, answer.revision);
  });
  lock.queue.forget(to);  // if it is refused, its lease may be dead
}

void Locks::release(Lock& lock) {
  lock.given_once = true;
  send(lock, protocol_.release(lock.name, lock.grant), [this](Lock& asked, const Answer& answer) {
    if (!answer.guarded) {
      learn(asked, protocol_.view(answer, 0));
      // A key below the queue that is no machine's keeps the lock here.
      if (asked.phase == Phase::held && asked.queue.empty() && !asked.queue.unknown()) pause(asked);
      return;
    }
    ++counters_.releases;
    asked.in_vain = 0;
    leave_held(asked);
  });
}

// A holder has heard of this machine once the store has the note, unless its agent restarts, which looks by itself. To
// note it again is a second line.
void Locks::note_holder(Lock& lock, const Record& held) {
  const Milliseconds now = clock_.boot_ms();
  const bool again = lock.noted == held.modified;
  if (again && now < lock.note_due) return;
  lock.noted = held.modified;
  lock.note_back_off = again ? std::min(2 * lock.note_back_off, kNoteAgainMax) : settings_.poll_ms;
  lock.note_due = now + lock.note_back_off;
  store_.transact(protocol_.note(lock.name, held, lock.place), [this, name = lock.name](const Answer& answer) {
    const auto found = locks_.find(name);
    if (answer.outcome != Outcome::answered && found != locks_.end()) found->second.noted = 0;
  });
}

}  // namespace holdfast::agent
