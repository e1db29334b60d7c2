// The transactions of the protocol, one in each row. R is the revision at which a lock's key was last put. l, q and b
// are keys (agent/keys.h), and "me" and "w" are the leases of this machine and of the first waiter.
//
//   step       if                                    then                                           else
//   ask        create(l)=0, create(q/*)=0            put l                                          put q/me; look
//   try        same                                  put l                                          look
//   note       mod(l)=R                              put b/holder                                   -
//   transfer   mod(l)=R, create(q/w)=r               put l on w; del q/w; put b/w; del or put q/me  look
//   release    mod(l)=R, create(q/*)=0               del l                                          look
//   leave      create(q/me)=r                        del q/me                                       look
//   claim      create(l)=0, create(q/me)=r           put l; del q/me                                look
//   touch      mod(l)=R                              put l; look                                    look
//   look       -                                     get l; get q/me; the first of q
//   break      as transfer or release, with R        the same; put b/holder                         look
//
// If a transaction is executed twice, the second execution has no effect, except for an ask. A late copy of an ask may
// give this machine a lock or a queue position that nobody wants. The agent gives the lock or the position back as soon
// as it learns of it (agent/locks.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/ring.h"
#include "agent/store.h"

namespace holdfast::agent {

/// The number of waiters that a look reads. It is one more than a Grant lists, because the first waiter gets the lock.
/// The benchmark "One contender on each machine" depends on this value.
inline constexpr std::int64_t kLookMax = 9;
/// The number of steps of a look. A transaction of etcd has at most 128 steps.
inline constexpr std::size_t kLookSteps = 3;

/// The result of a look.
struct View {
  Revision revision = 0;
  std::optional<Record> lock;
  std::optional<Record> own;    // this machine's queue entry
  std::vector<Waiter> waiters;  // the first waiters among the other machines
  Revision complete = 0;        // `waiters` is complete up to this revision (agent/queue.h)
  bool first = false;           // this machine is first in the queue

  bool held_by(LeaseId lease) const { return lock && lock->lease == lease; }
};

class Protocol {
 public:
  Protocol(const Keys& keys, LeaseId self) : keys_(&keys), self_(self) {}

  LeaseId self() const { return self_; }

  Change ask(const LockName& name, const std::string& document) const;
  Change try_once(const LockName& name, const std::string& document) const;
  /// Notifies the holder. REQUIRES: this machine has waited since `since`, and is first in the queue.
  Change note(const LockName& name, const Record& lock, Revision since) const;
  /// Gives the lock to the first machine in the queue. `again`: this machine joins the end of the queue.
  Change transfer(const LockName& name, Revision grant, const Queue& queue, bool again,
                  const std::string& document) const;
  Change release(const LockName& name, Revision grant) const;
  Change leave(const LockName& name, Revision since) const;
  Change claim(const LockName& name, Revision since, const std::string& document) const;
  Change touch(const LockName& name, Revision grant, const std::string& document) const;
  Change look(const LockName& name) const;
  /// Breaks the grant of another machine, as found by a look. `ring`: also puts the other machine's notification key.
  /// This makes the transaction fail if that machine's lease is dead.
  Change break_grant(const LockName& name, const View& view, bool ring) const;

  void add_look(const LockName& name, std::vector<Step>& to, std::int64_t limit) const;
  /// Returns the result of the look that begins with found[at].
  View view(const Answer& answer, std::size_t at) const;

 private:
  Change hand_over(const LockName& name, Revision grant, Waiter to, Grant ring, const std::string& document) const;

  const Keys* keys_;
  LeaseId self_;
};

}  // namespace holdfast::agent
