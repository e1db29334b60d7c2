// The locks of a cluster that this machine has, waits for or gives back: one state machine for each, in one epoch.
//
// Rules, on which exclusion rests:
// 1. A lock is granted to local programs (stands) only after positive evidence that its key is on this machine's lease
//    at a revision R: the answer of this machine's own transaction, a Grant with a later revision than the one at which
//    it was last known to wait, or a look.
// 2. Before a transaction that gives it away is sent, the lock does not stand any more (Machine::recall), and this is
//    known after the machine was asked for its use: an earlier agent, which may have been stopped while it granted the
//    lock, cannot go on with that. A lock that then stands, whatever was known before, is recalled first.
// 3. Such a transaction is guarded by R, and may be done long after it was sent. So once one was sent, the lock stands
//    again only at a new revision (touch), which makes all earlier ones void. Nor does it stand after a restart of the
//    agent, if it did not stand before.
// 4. No answer of an earlier epoch, nor one of a request that was given up, changes anything.
//
// And on which rests that nobody waits for ever:
// 5. What is not known is asked for: after an answer that did not come (unsure), and the queue after a transfer, a
//    claim or a restart.
// 6. Waiters look once a second, whether the lock is free and they are the first, or to note the holder again, more and
//    more rarely; this machine's locks are looked at in turns. No look is sent while earlier ones are not answered.
//    Looks at many locks are few requests, few at a time, and repeated as such.
// 7. A ring or a look that shows a lock of this machine's lease that it did not know of makes it known.
// 8. What had no effect is repeated after a pause that grows until something has. Where the store refuses what it would
//    refuse of any lock, one lock at a time asks again; each that gets its answer lets two others follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/clock.h"
#include "agent/keys.h"
#include "agent/machine.h"
#include "agent/protocol.h"
#include "agent/queue.h"
#include "agent/ring.h"
#include "agent/settings.h"
#include "agent/store.h"

namespace holdfast::agent {

/// For people and tests; they only grow.
struct LockCounters {
  std::uint64_t granted_by_answer = 0;
  std::uint64_t granted_by_bell = 0;
  std::uint64_t granted_by_look = 0;  // no bell told: it is dead, or slower than the look
  std::uint64_t transfers = 0;
  std::uint64_t releases = 0;
  std::uint64_t unsure = 0;   // answers that did not come
  std::uint64_t dropped = 0;  // grants that were broken
};

class Locks {
 public:
  Locks(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings);

  /// A new lease, and with it an epoch, without locks.
  void begin(LeaseId lease, Epoch epoch);
  /// The lease of an earlier agent of this machine, which `keys` hang on, with the locks that stand.
  void adopt(LeaseId lease, Epoch epoch, const std::vector<std::string>& keys, const std::vector<LockName>& standing);
  /// The epoch is over: forgets all.
  void end();

  /// Keys that hang on the lease: makes known what is not (rule 7), and looks at locks that are missing.
  void compare(const std::vector<std::string>& keys);

  void want(const Want& want);
  /// From now on asks for no lock, and gives back each as soon as no local program holds it: until empty().
  void drain();
  void ring(const Record& bell);
  /// Does what is due.
  void step();
  /// When step() is due next.
  Milliseconds due() const;

  bool draining() const { return draining_; }
  /// Whether any lock or place is this machine's.
  bool empty() const { return locks_.empty(); }
  /// How many this machine has, and how many it waits for.
  std::size_t held() const { return count(Phase::held); }
  std::size_t waiting() const { return count(Phase::waiting); }
  const LockCounters& counters() const { return counters_; }
  /// Called when the store says that a lease is gone which may be this machine's.
  void on_dead_lease(std::function<void()> call) { dead_lease_ = std::move(call); }

 private:
  enum class Phase { absent, waiting, held };

  struct Lock {
    LockName name;
    Phase phase = Phase::absent;
    std::uint64_t request = 0;  // the running one; 0: none
    std::uint64_t state = 0;    // changes with each event, so that an older look of many does not count
    bool unsure = false;        // an answer did not come
    bool refused = false;       // by a store that refuses all: it is in `line_`
    bool tried = false;         // it was, and is the one that asks again
    bool adopted = false;       // of an earlier agent, and not looked at yet: that look is to come
    bool stood = false;         // and it stood
    Contender contender;        // the last that asked
    Contender told;             // what the store has about the holder; without a pid: nothing
    Contender seen;             // the holder at the last look
    Milliseconds due = 0;       // 0: nothing
    Milliseconds back_off = 0;  // the last pause after what had no effect
    Milliseconds paused = 0;    // until then nothing is sent

    // waiting
    Revision asked = 0;         // at which it was last known to wait
    Revision place = 0;         // the creation of its key; of a held lock: of one that is to be taken back, or 0
    std::optional<Grant> bell;  // that came before it could be judged, and its revision
    Revision bell_revision = 0;
    Revision noted = 0;  // the grant of the holder that was last told of this machine
    Milliseconds note_due = 0;
    Milliseconds note_back_off = 0;

    // held
    Revision grant = 0;
    Revision broken = 0;  // the grant that somebody has broken
    bool stands = false;
    bool recalled = false;    // Machine::recall runs
    bool giving = false;      // it goes to another machine, or back
    bool given_once = false;  // rule 3: a transaction that gives `grant` away was sent
    Revision stood_at = 0;    // the last revision in which it stood
    Queue queue;
    std::optional<Note> note;  // that came before the grant was known
    std::uint64_t turn = 0;    // of standing
    Milliseconds since = 0;
    Milliseconds waited_since = 0;  // by another machine; 0: not
    std::uint32_t grants = 0;       // at the last look at its use
    std::uint32_t why_of = 0;       // the local grant, which may have a reason
    Milliseconds why_due = 0;       // when it is told to the store; 0: it was, or there is none
  };

  using Locked = std::map<LockName, Lock>;
  using Then = std::function<void(Lock&, const Answer&)>;

  std::size_t count(Phase phase) const;

  // locks.cc: what to do next
  std::optional<LockName> name_of(const std::string& key) const;
  Lock& lock_of(const LockName& name);
  void wake(Lock& lock, Milliseconds when);
  /// Does the next step of a lock, if nothing runs. The lock may be gone afterwards.
  void consider(const LockName& name);
  void consider_absent(Lock& lock, const Use& use);
  void consider_waiting(Lock& lock, const Use& use);
  void consider_held(Lock& lock, const Use& use);
  void consider_standing(Lock& lock);
  void consider_idle(Lock& lock, const Use& use);
  bool tell_why(Lock& lock, const Use& use);
  void recall(Lock& lock);
  void give(Lock& lock);
  void stand(Lock& lock);
  void forget(const LockName& name);

  // locks_send.cc: the transactions
  void send(Lock& lock, Change change, Then then);
  void ask(Lock& lock, bool only_try);
  void leave(Lock& lock);
  void claim(Lock& lock);
  void touch(Lock& lock);
  /// Before what had no effect is tried again.
  void pause(Lock& lock);
  /// Something had an effect.
  void worked(Lock& lock);
  /// The store has refused what it would refuse of any lock.
  void line_up(Lock& lock);
  /// Lets the first in the line ask again.
  void let_next();
  void look(Lock& lock);
  void transfer(Lock& lock);
  void release(Lock& lock);
  void note_holder(Lock& lock, const Record& held);
  std::string document(const Lock& lock) const;

  // locks_learn.cc: what was found out
  void failed(Lock& lock, const Answer& answer);
  void gain(Lock& lock, Revision grant, Queue queue);
  void wait(Lock& lock, Revision place, Revision asked);
  void leave_held(Lock& lock);
  void take_note(Lock& lock);
  void learn(Lock& lock, const View& view);
  void learn_held(Lock& lock, const View& view);
  void learn_waiting(Lock& lock, const View& view);
  void gain_seen(Lock& lock, const View& view);
  void lost(Lock& lock);
  void take_bell(Lock& lock);
  void ring(const Grant& grant, Revision revision);
  void ring(const Note& note);
  void ring(const Broken& broken);

  // locks_poll.cc
  void poll();
  void look_at_many(const std::vector<LockName>& names);
  void send_looks();
  /// Sends what the store should have about the holder, for people. False: it has that, or there is none that stays.
  bool tell_holder(Lock& lock);
  void poll_many(const std::vector<LockName>& names);
  void learn_many(const std::vector<std::pair<LockName, std::uint64_t>>& looked, const Answer& answer);

  Store& store_;
  Machine& machine_;
  const Clock& clock_;
  const Keys& keys_;
  const Settings& settings_;
  std::function<void()> dead_lease_ = [] {};

  Protocol protocol_;
  Epoch epoch_ = 0;            // 0: none
  bool lost_unasked_ = false;  // a lock was, so others may be: of a store that was put back to an earlier state
  bool draining_ = false;
  Locked locks_;
  std::set<std::pair<Milliseconds, LockName>> due_;
  std::uint64_t tickets_ = 0;
  Milliseconds next_poll_ = 0;
  LockName polled_;  // the last of this machine's locks that was looked at in turn
  // Looks at many: those to be sent, and how many are not answered yet.
  std::deque<std::vector<LockName>> looks_;
  std::size_t polls_ = 0;
  Milliseconds looks_back_off_ = 0;
  Milliseconds next_looks_ = 0;
  // Locks that the store has refused, as all others.
  std::deque<LockName> line_;
  Milliseconds line_back_off_ = 0;
  Milliseconds next_in_line_ = 0;
  LockCounters counters_;
};

}  // namespace holdfast::agent
