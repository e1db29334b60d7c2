// What the agent asks of its own machine: of the shared memory in which local programs take a cluster's locks.
//
// A lock is *standing* where this machine has it at the store and local programs may take it without asking: its epoch
// is the current one, and now < deadline. Local programs are let in only while it stands, in their own order.
//
// One agent acts for a machine. A later one supersedes it: from then on each call of the earlier agent changes nothing.
// Calls return at once; callbacks run later, from the loop of the agent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/clock.h"
#include "agent/document.h"
#include "agent/keys.h"
#include "agent/store.h"

namespace holdfast::agent {

/// One lease. 0: none yet.
using Epoch = std::uint32_t;

/// The words of the lease in shared memory. A lease is lost for good: by lose(), or when anyone sees the deadline
/// passed.
struct Session {
  Epoch epoch = 0;
  LeaseId lease = 0;
  Milliseconds deadline = 0;  // BOOTTIME
  bool lost = true;
};

/// A local program wants a lock that does not stand, or its numbers run out (kGrantsMax). A hint: it may be repeated
/// or lost; Use tells what is true.
struct Want {
  LockName name;
  Contender contender;
};

struct Use {
  bool known = true;  // false: nothing else is said
  bool stands = false;
  bool held = false;         // by a local program
  bool waits = false;        // a local program waits for it
  bool tries = false;        // a local program waits for no more than the answer whether it is free
  std::uint32_t grants = 0;  // local ones since grant()
};

/// Why local programs that wait only for an answer do not get the lock.
enum class Refusal {
  held,         // elsewhere
  unavailable,  // the store does not answer
  exhausted,    // the store's revisions are too large to make numbers of
  too_long,     // the name
};

/// The reason why no new lock is granted though the session lasts. Programs see it as StoreTrouble (gate/session.h).
enum class Trouble { none, unanswered, no_room, no_leader, denied, refused, draining };

/// A question of a local program, and what it is told.
struct Query {
  enum class Kind { verify, holder, break_lock, status, accept };
  std::uint64_t number = 0;
  Kind kind = Kind::verify;
  LockName name;          // of status and accept: none
  Revision revision = 0;  // of break_lock: of the grant to break; of accept: the id of a store
};

/// Numbers with their names, in an order for people.
using Figures = std::vector<std::pair<std::string, std::uint64_t>>;

struct Reply {
  enum class Code {
    yes,          // verify: it is this machine's; holder, status: here it is; break_lock, accept: done
    no,           // verify: it is not; holder: free; break_lock: the grant is another or none; accept: see `sentence`
    unavailable,  // see `sentence`
    unsupported,  // the store cannot have such a key
  };
  Code code = Code::unavailable;
  std::string sentence;
  Revision revision = 0;  // of the grant
  LeaseId machine = 0;    // the holder's lease
  Document document;      // of the holder, as far as it is known
  Figures figures;        // of status
  std::string space;      // of status: the prefix of all keys at the store
};

/// A local grant has a fencing number: the revision of the store's grant, times 2^14, and a count.
inline constexpr std::uint32_t kGrantsMax = (std::uint32_t{1} << 14) - 1;
/// From here on numbers would not stay below 2^53, where doubles cease to hold them.
inline constexpr Revision kRevisionEnd = Revision{1} << 39;

class Machine {
 public:
  virtual ~Machine() = default;

  /// Whether a later agent acts for this machine.
  virtual bool superseded() const = 0;

  virtual Session session() const = 0;
  /// Makes a new epoch of that lease. 0: superseded.
  virtual Epoch begin_epoch(LeaseId lease, Milliseconds deadline) = 0;
  /// Moves the deadline, which was seen as `from`, on, unless it is lost or has passed. What is further stays so.
  virtual bool renew(Milliseconds from, Milliseconds to) = 0;
  /// The session is over, in each of its parts, of whatever epoch; and with it whatever stands. Its holders see that.
  /// False: there may be parts of an earlier agent's that cannot be reached. They end at their own deadline, so the
  /// lease must not be ended at the store before that.
  virtual bool lose() = 0;

  /// Local programs that wait in vain are told so.
  virtual void note(Trouble trouble) = 0;

  /// What is wanted and does not stand: all of it to a new agent and in a new epoch, then what has come since.
  virtual std::vector<Want> wanted() = 0;
  /// After a call that knows, no earlier agent grants the lock. It is not known while a process is stopped that changes
  /// the lock, or the lock may be in a part that cannot be reached (lose()).
  virtual Use use(const LockName& name) const = 0;
  /// The local program that has the lock; without a pid if none has, or it cannot be told. For people.
  virtual Contender holder(const LockName& name) const = 0;
  /// Whether all that hold the lock or wait for it are known to be dead: then nobody needs it.
  virtual bool orphaned(const LockName& name) const = 0;
  /// The locks that stand in this epoch; nothing if it cannot be told just now.
  virtual std::optional<std::vector<LockName>> standing() const = 0;
  /// The same, of an earlier agent's epoch which this one goes on with; the store ends its lease no later than `end`
  /// unless that is prolonged. From now on nothing stands in a part that is found later: its holders have lost that.
  virtual std::optional<std::vector<LockName>> adopt(Milliseconds end) = 0;

  /// Lets local programs take the lock from now on, with numbers of that revision; also while it stands already, and
  /// then without harm to its holder. After kGrantsMax grants, none follows. False: the epoch is over. REQUIRES: it
  /// never stood at that revision, so that no number is given twice.
  virtual bool grant(const LockName& name, Epoch epoch, Revision revision) = 0;
  /// Tells the local programs that only try; if the name is too long or numbers are exhausted, also those that wait.
  virtual void refuse(const LockName& name, Refusal why) = 0;
  /// Becomes an ordinary waiter for the lock, behind the local programs that wait already. `done` runs when it is the
  /// agent's turn: no local program holds the lock, and it no longer stands. Not after drop() or lose().
  virtual void recall(const LockName& name, std::function<void()> done) = 0;
  /// The same if nobody holds the lock or waits for it; else false, and nothing is changed.
  virtual bool try_recall(const LockName& name) = 0;
  /// The lock is this machine's no longer, even if a local program holds it, which sees that.
  virtual void drop(const LockName& name) = 0;

  /// Questions since the last call. Each gets one reply.
  virtual std::vector<Query> queries() = 0;
  virtual void answer(std::uint64_t number, const Reply& reply) = 0;
};

}  // namespace holdfast::agent
