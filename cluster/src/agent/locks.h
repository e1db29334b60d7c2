// The locks of a cluster that this machine has, waits for or gives back: one state machine per lock, in one epoch.
//
// Mutual exclusion depends on these rules:
// 1. A lock is granted to local programs (it *stands*) only after evidence that its key is attached to this machine's
//    lease at a revision R. The evidence is the answer to this machine's own transaction, a Grant with a later revision
//    than the one at which it was last known to wait, or a look (a read of the lock and its queue).
// 2. Before a transaction that gives the lock away is sent, the lock no longer stands (Machine::recall). We must have
//    learned that after we asked the machine for its use: from then on an earlier agent, which may have been stopped
//    while it granted the lock, cannot finish the grant. A lock that stands then is recalled first.
// 3. Such a transaction is guarded by R, and may be executed long after it was sent. So once one was sent, the lock
//    stands again only at a new revision (touch), which voids all earlier transactions. After a restart of the agent, a
//    lock stands only if it stood before.
// 4. Answers of an earlier epoch, and answers to requests that were given up, change nothing.
//
// Progress depends on these rules:
// 5. Unknown state is read from the store: after an answer that did not arrive (unsure), and the queue after a
//    transfer, a claim or a restart.
// 6. Once a second, waiters check whether the lock is free and they are the first; they notify the holder again, less
//    and less often. This machine's own locks are checked in turns. No look is sent while earlier ones are unanswered.
//    Looks at many locks share a few requests, of which few run at once; such a request is repeated as a whole.
// 7. A lock on this machine's lease that was unknown becomes known by a look or a ring (a notification, agent/ring.h).
// 8. A request without effect is repeated after a pause, which grows until something has an effect. If the store
//    refuses all locks, one lock at a time tries again; each that gets an answer lets two others follow.
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

/// For people and tests; counters only grow.
struct LockCounters {
  std::uint64_t granted_by_answer = 0;
  std::uint64_t granted_by_bell = 0;
  std::uint64_t granted_by_look = 0;  // without a ring: the bell is dead, or slower than the look
  std::uint64_t transfers = 0;
  std::uint64_t releases = 0;
  std::uint64_t unsure = 0;   // answers that did not arrive
  std::uint64_t dropped = 0;  // grants that were broken
};

class Locks {
 public:
  Locks(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings);

  /// Begins a new lease and epoch, without locks.
  void begin(LeaseId lease, Epoch epoch);
  /// Takes over the lease of an earlier agent of this machine, with its `keys` and the locks that stand.
  void adopt(LeaseId lease, Epoch epoch, const std::vector<std::string>& keys, const std::vector<LockName>& standing);
  /// Ends the epoch, and forgets everything.
  void end();

  /// Compares its locks with the keys attached to the lease: learns unknown ones (rule 7), and checks missing ones.
  void compare(const std::vector<std::string>& keys);

  void want(const Want& want);
  /// From now on requests no locks, and gives each back as soon as no local program holds it, until empty().
  void drain();
  void ring(const Record& bell);
  /// Does what is due.
  void step();
  /// Returns when step() is due next.
  Milliseconds due() const;

  bool draining() const { return draining_; }
  /// Returns whether this machine has no lock and no position in a queue.
  bool empty() const { return locks_.empty(); }
  /// How many locks this machine has, and how many it waits for.
  std::size_t held() const { return count(Phase::held); }
  std::size_t waiting() const { return count(Phase::waiting); }
  const LockCounters& counters() const { return counters_; }
  /// Sets what to call when the store says that a lease, perhaps this machine's, is gone.
  void on_dead_lease(std::function<void()> call) { dead_lease_ = std::move(call); }

 private:
  enum class Phase { absent, waiting, held };

  struct Lock {
    LockName name;
    Phase phase = Phase::absent;
    std::uint64_t request = 0;  // the running one; 0: none
    std::uint64_t state = 0;    // changes with each event, so that an older bulk look is ignored
    bool unsure = false;        // an answer did not arrive
    bool refused = false;       // by a store that refuses all locks: this one is in `line_`
    bool tried = false;         // it was refused, and is the one that tries again
    bool adopted = false;       // from an earlier agent; not looked at yet
    bool stood = false;         // adopted, and it stood
    Contender contender;        // the last local program that asked for it
    Contender told;             // what the store knows about the holder; without a pid: nothing
    Contender seen;             // the holder at the last look
    Milliseconds due = 0;       // 0: nothing
    Milliseconds back_off = 0;  // the last pause after an attempt without effect
    Milliseconds paused = 0;    // nothing is sent until then

    // While waiting.
    Revision asked = 0;         // the revision at which it was last known to wait
    Revision place = 0;         // when its key was created; for a held lock: of a key to take back, or 0
    std::optional<Grant> bell;  // arrived before it could be judged; with its revision
    Revision bell_revision = 0;
    Revision noted = 0;  // the grant whose holder was last notified of this machine
    Milliseconds note_due = 0;
    Milliseconds note_back_off = 0;

    // While held.
    Revision grant = 0;
    Revision broken = 0;  // the grant that somebody broke
    bool stands = false;
    bool recalled = false;    // Machine::recall is running
    bool giving = false;      // to another machine, or back
    bool given_once = false;  // rule 3: a transaction that gives `grant` away was sent
    Revision stood_at = 0;    // the last revision at which it stood
    Queue queue;
    std::optional<Note> note;  // arrived before the grant was known
    std::uint64_t turn = 0;    // of standing
    Milliseconds since = 0;
    Milliseconds waited_since = 0;  // by another machine; 0: it does not wait
    std::uint32_t grants = 0;       // at the last check of its use
    std::uint32_t why_of = 0;       // the local grant, which may have a reason
    Milliseconds why_due = 0;       // when to tell the store; 0: done, or no reason
  };

  using Locked = std::map<LockName, Lock>;
  using Then = std::function<void(Lock&, const Answer&)>;

  std::size_t count(Phase phase) const;

  // locks.cc: what to do next
  std::optional<LockName> name_of(const std::string& key) const;
  Lock& lock_of(const LockName& name);
  void wake(Lock& lock, Milliseconds when);
  /// Does the next step of a lock, if no request is running. The lock may be gone afterwards.
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
  /// Pauses before repeating something that had no effect.
  void pause(Lock& lock);
  /// Ends the pauses: something had an effect.
  void worked(Lock& lock);
  /// Queues the lock in `line_`: the store refuses all locks.
  void line_up(Lock& lock);
  /// Lets the first lock in the line try again.
  void let_next();
  void look(Lock& lock);
  void transfer(Lock& lock);
  void release(Lock& lock);
  void note_holder(Lock& lock, const Record& held);
  std::string document(const Lock& lock) const;

  // locks_learn.cc: handling answers
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
  /// Sends the store what people should see about the holder. Returns false if the store knows it, or no holder keeps
  /// the lock.
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
  bool lost_unasked_ = false;  // a lock was lost, so the store may have been restored and others be lost, too
  bool draining_ = false;
  Locked locks_;
  std::set<std::pair<Milliseconds, LockName>> due_;
  std::uint64_t tickets_ = 0;
  Milliseconds next_poll_ = 0;
  LockName polled_;  // the last of this machine's locks that was checked in turn
  // Bulk looks: those to be sent, and how many are not answered yet.
  std::deque<std::vector<LockName>> looks_;
  std::size_t polls_ = 0;
  Milliseconds looks_back_off_ = 0;
  Milliseconds next_looks_ = 0;
  // Locks that wait because the store refuses all.
  std::deque<LockName> line_;
  Milliseconds line_back_off_ = 0;
  Milliseconds next_in_line_ = 0;
  LockCounters counters_;
};

}  // namespace holdfast::agent
