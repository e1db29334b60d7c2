#include "agent/questions.h"

#include <utility>

namespace holdfast::agent {

namespace {

constexpr int kBreakRounds = 20;

}  // namespace

void Questions::ask(const Query& query) {
  const Status name = keys_.check(query.name);
  if (!name.ok()) return reply(query, Reply::Code::unsupported, name.message);
  switch (query.kind) {
    case Query::Kind::verify:
      return verify(query);
    case Query::Kind::holder:
      return find_holder(query);
    case Query::Kind::break_lock:
      return break_lock(query, 0);
    case Query::Kind::status:
    case Query::Kind::accept:
      return;  // the engine answers these
  }
}

void Questions::reply(const Query& query, Reply::Code code, std::string sentence) {
  Reply reply;
  reply.code = code;
  reply.sentence = std::move(sentence);
  machine_.answer(query.number, reply);
}

bool Questions::answered(const Query& query, const Answer& answer) {
  if (answer.outcome == Outcome::answered) return true;
  reply(query, Reply::Code::unavailable,
        answer.outcome == Outcome::unknown ? "the store did not answer: " + answer.sentence : answer.sentence);
  return false;
}

void Questions::verify(const Query& query) {
  Change change{{}, {Step::get(keys_.lock(query.name))}, {}};
  store_.transact(std::move(change), [this, query](const Answer& answer) {
    if (!answered(query, answer)) return;
    const Session session = machine_.session();
    const auto& found = answer.found.front();
    const bool ours = !found.empty() && !session.lost && found.front().lease == session.lease;
    Reply reply;
    reply.code = ours ? Reply::Code::yes : Reply::Code::no;
    reply.revision = ours ? found.front().modified : 0;
    reply.machine = found.empty() ? 0 : found.front().lease;
    machine_.answer(query.number, reply);
  });
}

void Questions::find_holder(const Query& query) {
  Change change{{}, {Step::get(keys_.lock(query.name))}, {}};
  store_.transact(std::move(change), [this, query](const Answer& answer) {
    if (!answered(query, answer)) return;
    const auto& found = answer.found.front();
    if (found.empty()) return reply(query, Reply::Code::no);
    name_holder(query, found.front());
  });
}

/// Describes the holder. If the lock was transferred, its key has no document, so the machine's document is used
/// instead.
void Questions::name_holder(const Query& query, const Record& lock) {
  Change change{{}, {Step::get(keys_.machine(lock.lease))}, {}};
  store_.transact(std::move(change), [this, query, lock](const Answer& answer) {
    if (!answered(query, answer)) return;
    Reply reply;
    reply.code = Reply::Code::yes;
    reply.revision = lock.modified;
    reply.machine = lock.lease;
    const auto& found = answer.found.front();
    if (!lock.value.empty())
      reply.document = read_document(lock.value);
    else if (!found.empty())
      reply.document = read_document(found.front().value);
    if (lock.value.empty()) reply.document.when = 0;  // the time in the machine's document is the start of the session
    reply.document.name = query.name;
    // This agent knows more about its own machine than the store does.
    if (lock.lease == machine_.session().lease) {
      const Contender here = machine_.holder(query.name);
      if (here.pid != reply.document.contender.pid) reply.document.when = 0;
      reply.document.contender = here;
    }
    machine_.answer(query.number, reply);
  });
}

void Questions::break_lock(const Query& query, int round) {
  if (round == kBreakRounds)
    return reply(query, Reply::Code::unavailable,
                 "cannot break the grant: the lock's queue changes too fast, or contains a key that belongs to no "
                 "machine; try again");
  const Protocol protocol(keys_, machine_.session().lease);
  store_.transact(protocol.look(query.name), [this, query, protocol, round](const Answer& answer) {
    if (!answered(query, answer)) return;
    const View view = protocol.view(answer, 0);
    if (!view.lock || view.lock->modified != query.revision)
      return reply(query, Reply::Code::no, "the lock has no grant with that revision");
    break_seen(query, view, true, round);
  });
}

void Questions::break_seen(const Query& query, const View& view, bool ring, int round) {
  const Protocol protocol(keys_, machine_.session().lease);
  store_.transact(protocol.break_grant(query.name, view, ring), [this, query, view, ring, round](const Answer& answer) {
    if (ring && answer.fault == Fault::no_lease) return break_seen(query, view, false, round);
    if (!answered(query, answer)) return;
    if (answer.guarded) return reply(query, Reply::Code::yes);
    // Try again if only the waiters have changed, but not if the grant has changed.
    break_lock(query, round + 1);
  });
}

}  // namespace holdfast::agent
