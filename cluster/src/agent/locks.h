// The locks of a cluster that this machine has, waits for or gives back. Each lock has its own state machine, and all
// are in the same epoch.
//
// A lock *stands* while it may be granted to local programs (agent/machine.h). Mutual exclusion depends on these rules:
// 1. A lock stands only after evidence that its key is attached to this machine's lease at a revision R. Evidence is
//    the answer to this machine's own transaction, or a look (a read of the lock and its queue). A Grant (agent/ring.h)
//    is evidence if its revision is later than the revision at which this machine was last known to wait.
// 2. When the agent sends a transaction that gives the lock away, the lock no longer stands. The agent checks this with
//    Machine::use(). After that call, an earlier agent that was stopped while it granted the lock can no longer finish
//    the grant. If the lock still stands, the agent recalls it first (Machine::recall).
// 3. A transaction that gives the lock away is guarded by R, and may be executed long after it was sent. So once such a
//    transaction was sent, the lock stands again only at a new revision (touch), which voids all earlier transactions.
//    After a restart of the agent, a lock stands only if it stood before.
// 4. Answers to requests of an earlier epoch, and answers to abandoned requests, have no effect.
//
// Progress depends on these rules:
// 5. Unknown state is read from the store. If an answer did not arrive, the lock is read (unsure). After a transfer, a
//    claim or a restart, the queue is read.
// 6. Once a second, a waiting machine checks whether the lock is free and whether the machine is first in the queue. It
//    notifies the holder again at growing intervals. A machine checks its own locks in rotation. No look is sent while
//    earlier looks are unanswered. Looks at many locks share a few requests. The number of these requests that run at
//    the same time is limited, and each is repeated as a whole.
// 7. If an unknown lock is attached to this machine's lease, a look or a notification (agent/ring.h) makes it known.
// 8. A request that had no effect is repeated after a pause. The pauses grow until a request has an effect. If the
//    store refuses all locks, one lock at a time tries again, and each lock that gets an answer lets two others follow.
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

/// Counters for people and tests. They only grow.
struct LockCounters {
  std::uint64_t granted_by_answer = 0;
  std::uint64_t granted_by_bell = 0;
  std::uint64_t granted_by_look = 0;  // no notification came, or the look was faster
  std::uint64_t transfers = 0;
  std::uint64_t releases = 0;
  std::uint64_t unsure = 0;   // the number of answers that did not arrive
  std::uint64_t dropped = 0;  // the number of locks that were lost
};

class Locks {
 public:
  Locks(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings);

  /// Begins a new lease and epoch without locks.
  void begin(LeaseId lease, Epoch epoch);
  /// Takes over the lease of this machine's earlier agent, with the lease's `keys` and the locks that stand.
  void adopt(LeaseId lease, Epoch epoch, const std::vector<std::string>& keys, const std::vector<LockName>& standing);
  /// Ends the epoch, and forgets all locks.
  void end();

  /// Compares the known locks with the keys attached to the lease. Learns unknown locks (rule 7), and checks known
  /// locks that have no key.
  void compare(const std::vector<std::string>& keys);

  void want(const Want& want);
  /// From now on, requests no locks, and gives each lock back as soon as no local program holds it. After that, empty()
  /// returns true.
  void drain();
  void ring(const Record& bell);
  /// Does the work that is due.
  void step();
  /// Returns when step() is next due.
  Milliseconds due() const;

  bool draining() const { return draining_; }
  /// Returns whether this machine has no lock and no position in a queue.
  bool empty() const { return locks_.empty(); }
  /// Returns the number of locks that this machine has. waiting() returns the number of locks that it waits for.
  std::size_t held() const { return count(Phase::held); }
  std::size_t waiting() const { return count(Phase::waiting); }
  const LockCounters& counters() const { return counters_; }
  /// Sets the function to call when the store says that a lease, perhaps this machine's, is gone.
  void on_dead_lease(std::function<void()> call) { dead_lease_ = std::move(call); }

 private:
  enum class Phase { absent, waiting, held };

  struct Lock {
    LockName name;
    Phase phase = Phase::absent;
    std::uint64_t request = 0;  // the running request; 0: none
    std::uint64_t state = 0;    // changes with each event, so that an older bulk look is ignored
    bool unsure = false;        // an answer did not arrive
    bool refused = false;       // the store refuses all locks, and this lock is in `line_`
    bool tried = false;         // the lock was refused, and tries again on behalf of other locks
    bool adopted = false;       // taken over from an earlier agent, and not checked yet
    bool stood = false;         // the lock was adopted, and stood before
    Contender contender;        // the local program that last requested the lock
    Contender reported;         // the holder that the store knows; without a pid: unknown
    Contender seen;             // the holder at the last check
    Milliseconds due = 0;       // when the next step is due; 0: none
    Milliseconds back_off = 0;  // the last pause after an attempt that had no effect
    Milliseconds paused = 0;    // nothing is sent until this time

    // These members are used while the machine waits.
    Revision asked = 0;         // the revision at which this machine was last known to wait
    Revision place = 0;         // when this machine's queue key was created; 0: there is none
    std::optional<Grant> bell;  // a Grant that arrived before it could be judged
    Revision bell_revision = 0;
    Revision noted = 0;  // the last grant whose holder was notified that this machine waits
    Milliseconds note_due = 0;
    Milliseconds note_back_off = 0;

    // These members are used while the machine has the lock.
    Revision grant = 0;
    Revision broken = 0;  // the grant that a command broke
    bool stands = false;
    bool recalled = false;    // Machine::recall is running
    bool giving = false;      // the lock is being given to another machine, or back
    bool given_once = false;  // rule 3: a transaction that gives `grant` away was sent
    Revision stood_at = 0;    // the last revision at which the lock stood
    Queue queue;
    std::optional<Note> note;  // a Note that arrived before the grant was known
    std::uint64_t turn = 0;    // the number of the period in which the lock stands
    Milliseconds since = 0;
    Milliseconds waited_since = 0;  // when another machine began to wait; 0: none waits
    std::uint32_t grants = 0;       // the number of local grants at the last check
    std::uint32_t why_of = 0;       // the local grant that may have a reason
    Milliseconds why_due = 0;       // when to tell the store the reason; 0: done, or no reason
  };

  using Locked = std::map<LockName, Lock>;
  using Then = std::function<void(Lock&, const Answer&)>;

  std::size_t count(Phase phase) const;

  // locks.cc: what to do next
  std::optional<LockName> name_of(const std::string& key) const;
  Lock& lock_of(const LockName& name);
  void wake(Lock& lock, Milliseconds when);
  /// Does the next step of a lock, if no request of the lock is running. The lock may be gone afterwards.
  void consider(const LockName& name);
  void consider_absent(Lock& lock, const Use& use);
  void consider_waiting(Lock& lock, const Use& use);
  void consider_held(Lock& lock, const Use& use);
  void consider_standing(Lock& lock);
  void consider_idle(Lock& lock, const Use& use);
  bool report_why(Lock& lock, const Use& use);
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
  /// Delays the next request, because the last one had no effect.
  void pause(Lock& lock);
  /// Ends the growing pauses, because a request had an effect.
  void worked(Lock& lock);
  /// Adds the lock to `line_`, because the store refuses all locks.
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
  /// Sends the store the description of the holder for people. Returns false if the store already has the description,
  /// or if no holder keeps the lock long enough.
  bool report_holder(Lock& lock);
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
  bool lost_unasked_ = false;  // a lock was lost: the store may have been restored, without the other locks
  bool draining_ = false;
  Locked locks_;
  std::set<std::pair<Milliseconds, LockName>> due_;
  std::uint64_t tickets_ = 0;
  Milliseconds next_poll_ = 0;
  LockName polled_;  // the last of this machine's locks that was checked in rotation
  // The bulk looks that must still be sent, and the number of unanswered bulk looks.
  std::deque<std::vector<LockName>> looks_;
  std::size_t polls_ = 0;
  Milliseconds looks_back_off_ = 0;
  Milliseconds next_looks_ = 0;
  // The locks that wait because the store refuses all locks.
  std::deque<LockName> line_;
  Milliseconds line_back_off_ = 0;
  Milliseconds next_in_line_ = 0;
  LockCounters counters_;
};

}  // namespace holdfast::agent
