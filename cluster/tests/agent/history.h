// Histories of locks across machines. They are recorded by programs, by a register that the locks guard, and by the
// store. The checks of a history return descriptions of the errors that they find.
//
// All times are in nanoseconds of CLOCK_BOOTTIME on one machine, whose clock all writers read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/keys.h"
#include "agent/store.h"

namespace holdfast::test {

/// A critical section of a program under a lock.
struct Section {
  agent::LockName name;
  int machine = 0;
  agent::LeaseId lease = 0;  // the machine's lease when it got the lock, or 0 if it is unknown
  std::uint64_t token = 0;
  std::int64_t asked = 0;  // before the call that requested the lock
  std::int64_t from = 0;   // after this call
  std::int64_t until =
      0;  // before the last call that found the lock valid or released it; less than `from` if no call did
};

/// Checks that no two programs had a lock at the same moment, and that tokens rise from grant to grant.
std::vector<std::string> check_sections(std::vector<Section> sections);

/// A read of a register, which a write may follow. Written values are unique.
struct Update {
  std::uint64_t read = 0;
  std::uint64_t written = 0;  // equal to `read` if nothing was written
  std::int64_t begin = 0;     // before the read
  std::int64_t end = 0;       // after the write was accepted

  bool writes() const { return written != read; }
};

/// Returns the number of lost updates. An update is lost if a later write did not see it, so the last value does not
/// build on it.
std::size_t count_lost(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last);
/// Checks that the register is linearizable: there is an order of all updates that agrees with their times, and in
/// which each update reads the previous update's value.
std::vector<std::string> check_updates(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last);

/// Checks what the store did with locks and queues, one event at a time, in the order of their revisions.
class StoreHistory {
 public:
  explicit StoreHistory(const std::string& space) : keys_(space), bells_(space + "/b/") {}

  /// Adds an event in the form in which a watch reports it. The record of a deleted key has no revisions.
  void add(const agent::Record& event);

  /// Returns an error for each lock that did not go to the first machine in its queue.
  const std::vector<std::string>& errors() const { return errors_; }
  /// Checks that each section's token belongs to a grant that the store gave to the section's machine. Ignores sections
  /// with an unknown lease.
  std::vector<std::string> check_tokens(const std::vector<Section>& sections) const;
  std::size_t grants() const { return grants_.size(); }
  std::size_t transfers() const { return transfers_; }
  /// Returns the number of leases that ended. A machine's lease is known by its notification key.
  std::size_t ended_leases() const { return ended_leases_; }

 private:
  struct Place {
    agent::LeaseId lease = 0;
    /// Whether a late copy of a request created this entry for the holder itself. The entry counts only after the
    /// holder has given the lock away.
    bool is_old = false;
  };
  struct Lock {
    agent::LeaseId holder = 0;
    agent::LeaseId giver = 0;  // the former holder
    agent::Revision given = 0;
    std::map<agent::Revision, Place> queue;  // by the revisions at which the entries were created
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
