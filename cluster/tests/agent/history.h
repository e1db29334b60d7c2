// What happened to locks over machines, as programs, a register that they guard, and the store have written it down;
// and what of it must not have happened. Each check gives the errors that it found, in words.
//
// Times are CLOCK_BOOTTIME (ns) of one clock, which all writers read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/keys.h"
#include "agent/store.h"

namespace holdfast::test {

/// A program's time under a lock.
struct Section {
  agent::LockName name;
  int machine = 0;
  agent::LeaseId lease = 0;  // of the machine, as it got the lock; 0: not known
  std::uint64_t token = 0;
  std::int64_t asked = 0;  // before the call that asked for the lock
  std::int64_t from = 0;   // after it
  std::int64_t until = 0;  // before the last call that found the lock valid, or released it; less than `from`: none did
};

/// No two had a lock at one moment, and tokens rise with the grants.
std::vector<std::string> check_sections(std::vector<Section> sections);

/// One that read a register and then gave it another value, or only read it. Values that were written are unique.
struct Update {
  std::uint64_t read = 0;
  std::uint64_t written = 0;  // as `read`: nothing was
  std::int64_t begin = 0;     // before the read
  std::int64_t end = 0;       // after the write was accepted

  bool writes() const { return written != read; }
};

/// How many updates the last value does not come from: each of them was lost, as a later write knew nothing of it.
std::size_t count_lost(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last);
/// There is an order of all updates, in which each reads what the one before it wrote, and which their times allow: the
/// register is linearizable.
std::vector<std::string> check_updates(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last);

/// What the store did with locks and queues, event by event in the order of their revisions.
class StoreHistory {
 public:
  explicit StoreHistory(const std::string& space) : keys_(space), bells_(space + "/b/") {}

  /// As a watch tells it: a deleted key's record has no revisions.
  void add(const agent::Record& event);

  /// A lock that was held went to the first that waited for it, and one that was free to nobody before those.
  const std::vector<std::string>& errors() const { return errors_; }
  /// Each section's token is of a grant that the store gave to its machine. Those of an unknown lease are left out.
  std::vector<std::string> check_tokens(const std::vector<Section>& sections) const;
  std::size_t grants() const { return grants_.size(); }
  std::size_t transfers() const { return transfers_; }
  /// Of machines, by their bells.
  std::size_t ended_leases() const { return ended_leases_; }

 private:
  struct Place {
    agent::LeaseId lease = 0;
    /// A late copy of a request left it to a holder, which waits in earnest since it gave the lock away.
    bool is_old = false;
  };
  struct Lock {
    agent::LeaseId holder = 0;
    agent::LeaseId giver = 0;  // that held it before
    agent::Revision given = 0;
    std::map<agent::Revision, Place> queue;  // by the creation of the places
  };
  struct Granted {
    agent::LockName name;
    agent::LeaseId lease = 0;
  };

  void put_lock(const agent::LockName& name, const agent::Record& event);
  static void put_place(Lock& lock, agent::LeaseId lease, const agent::Record& event);
  static bool is_first(const Lock& lock, agent::LeaseId lease, agent::LeaseId holder);

  agent::Keys keys_;
  std::string bells_;
  std::map<agent::LockName, Lock> locks_;
  std::map<agent::Revision, std::vector<Granted>> grants_;
  std::size_t transfers_ = 0;
  std::size_t ended_leases_ = 0;
  std::vector<std::string> errors_;
};

}  // namespace holdfast::test
