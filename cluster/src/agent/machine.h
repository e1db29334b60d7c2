// The agent's view of its own machine: the shared memory in which local programs take a cluster's locks.
//
// A lock *stands* if the store has granted it to this machine, the grant's epoch is the current epoch, and the deadline
// has not passed. Local programs get a lock only while it stands. Their order is decided on this machine, without the
// agent.
//
// One agent acts for a machine. A later agent supersedes it. From then on, the earlier agent's calls change nothing.
// All calls return immediately; callbacks run later, from the agent's loop.
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

/// The number of a lease of this machine. 0 means that the machine has not had a lease yet.
using Epoch = std::uint32_t;

/// The lease in shared memory. It is lost for good when lose() is called, or when any process sees that the deadline
/// has passed.
struct Session {
  Epoch epoch = 0;
  LeaseId lease = 0;
  Milliseconds deadline = 0;  // BOOTTIME
  bool lost = true;
};

/// Says that a local program wants a lock that does not stand, or that the lock's tokens are running out (kGrantsMax).
/// A want is only a hint, which may be repeated or lost. Only use() is certain.
struct Want {
  LockName name;
  Contender contender;
};

struct Use {
  bool known = true;  // false: the other fields mean nothing
  bool stands = false;
  bool held = false;         // a local program holds the lock
  bool waits = false;        // a local program waits for the lock
  bool tries = false;        // a local program waits only to learn whether the lock is free
  std::uint32_t grants = 0;  // the number of local grants since grant()
};

/// The reason why local programs that only try are refused.
enum class Refusal {
  held,         // another machine has the lock
  unavailable,  // the store does not answer
  exhausted,    // the store's revisions are too large for fencing tokens
  too_long,     // the name is too long
};

/// The reason why no new lock is granted while the session lasts. Programs see the reason as StoreTrouble
/// (gate/session.h).
enum class Trouble { none, unanswered, no_room, no_leader, denied, refused, draining };

/// A question from a local program, and the reply.
struct Query {
  enum class Kind { verify, holder, break_lock, status, accept };
  std::uint64_t number = 0;
  Kind kind = Kind::verify;
  LockName name;          // empty for status and accept
  Revision revision = 0;  // break_lock: the grant's revision; accept: a store's id
};

/// Numbers with their names, in the order in which they are shown to people.
using Figures = std::vector<std::pair<std::string, std::uint64_t>>;

struct Reply {
  enum class Code {
    yes,  // verify: this machine has the lock; holder, status: see the fields; break_lock, accept: done
    no,   // verify: it does not have the lock; holder: free; break_lock: another grant, or none; accept: see `sentence`
    unavailable,  // see `sentence`
    unsupported,  // the store cannot have such a key
  };
  Code code = Code::unavailable;
  std::string sentence;
  Revision revision = 0;  // the revision of the grant
  LeaseId machine = 0;    // the holder's lease
  Document document;      // a description of the holder; unknown parts are empty
  Figures figures;        // status: the agent's counters
  std::string space;      // status: the prefix of all keys in the store
};

/// The maximum number of local grants per revision. A fencing token is the revision of the store's grant times 2^14,
/// plus a count.
inline constexpr std::uint32_t kGrantsMax = (std::uint32_t{1} << 14) - 1;
/// From this revision on, fencing tokens would exceed 2^53, above which doubles are not exact.
inline constexpr Revision kRevisionEnd = Revision{1} << 39;

class Machine {
 public:
  virtual ~Machine() = default;

  /// Returns whether a later agent acts for this machine.
  virtual bool superseded() const = 0;

  virtual Session session() const = 0;
  /// Begins a new epoch with this lease. Returns 0 if a later agent has superseded this agent.
  virtual Epoch begin_epoch(LeaseId lease, Milliseconds deadline) = 0;
  /// Moves the deadline from `from` to `to`, unless the session is lost or the deadline has passed. Never moves the
  /// deadline back.
  virtual bool renew(Milliseconds from, Milliseconds to) = 0;
  /// Ends the session in all dictionaries, whatever their epoch. After that, no lock stands, and holders notice this.
  /// Returns false if the session of an earlier agent may continue in dictionaries that cannot be opened. In these, the
  /// session ends at its own deadline, so the lease must not be ended at the store before that deadline.
  virtual bool lose() = 0;

  /// Records the reason why local programs wait without success.
  virtual void note(Trouble trouble) = 0;

  /// Returns the locks that local programs want, but that do not stand. The first call by an agent or in an epoch
  /// returns all these locks; later calls return only new ones.
  virtual std::vector<Want> wanted() = 0;
  /// Returns how local programs use a lock. After a call that returns a known use, no earlier agent can grant the lock.
  /// The use is unknown while a process that changes the lock is stopped, or if the lock may be in a dictionary that
  /// cannot be opened (see lose()).
  virtual Use use(const LockName& name) const = 0;
  /// Returns the local program that has the lock, to be shown to people. The result has no pid if no local program has
  /// the lock, or if the program is unknown.
  virtual Contender holder(const LockName& name) const = 0;
  /// Returns whether all holders and waiters are known to be dead, so that nobody needs the lock.
  virtual bool orphaned(const LockName& name) const = 0;
  /// Returns the locks that stand in this epoch, or nothing if they cannot be read now.
  virtual std::optional<std::vector<LockName>> standing() const = 0;
  /// Continues the epoch of an earlier agent. Returns the locks that stand in this epoch. Unless the lease is renewed,
  /// the store ends the lease at `end` at the latest. In dictionaries that can be opened only later, no lock stands,
  /// and holders have lost their locks.
  virtual std::optional<std::vector<LockName>> adopt(Milliseconds end) = 0;

  /// Lets local programs take the lock from now on, with fencing tokens of this revision. If the lock already stands,
  /// its holder keeps it. After kGrantsMax grants, there are no more. Returns false if the epoch is over. REQUIRES: the
  /// lock has never stood at this revision, so that no token is given out twice.
  virtual bool grant(const LockName& name, Epoch epoch, Revision revision) = 0;
  /// Refuses local programs that only try. If the name is too long or the tokens are exhausted, also refuses programs
  /// that wait.
  virtual void refuse(const LockName& name, Refusal why) = 0;
  /// Makes the agent an ordinary waiter for the lock, behind the present local waiters. When no local program holds the
  /// lock and it no longer stands, calls `done`, unless drop() or lose() has been called.
  virtual void recall(const LockName& name, std::function<void()> done) = 0;
  /// Recalls the lock if nobody holds it or waits for it. Otherwise returns false.
  virtual bool try_recall(const LockName& name) = 0;
  /// Records that this machine has lost the lock. A local holder notices.
  virtual void drop(const LockName& name) = 0;

  /// Returns the questions that arrived since the last call. Each question gets one reply.
  virtual std::vector<Query> queries() = 0;
  virtual void answer(std::uint64_t number, const Reply& reply) = 0;
};

}  // namespace holdfast::agent
