// Reads locks with their holders and waiters, for `holdfast locks`. Takes no mutex, and looks up only the processes
// that hold or wait for locks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "holdfast.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

struct Lock {
  std::string user{};  // the directory's owner, if the directories of all users are shown together
  std::string dictionary;
  std::string key;
  std::string trouble;  // why the holder is unknown; empty if it is known
  /// The holders that have held the lock longest, at most kHoldersShown. There are none if the key has only waiters.
  std::vector<holdfast_holder> holders;
  std::uint32_t holder_count = 0;
  /// The waiters in queue order, followed by the processes that only watch. There are at most kWaitersShown.
  std::vector<holdfast_waiter> waiters;
  std::uint32_t waiter_count = 0;

  static constexpr std::uint32_t kHoldersShown = 4096;
  static constexpr std::uint32_t kWaitersShown = 4096;
};

/// Returns "lock", "rwlock" or "semaphore", or "-" if nobody holds the lock.
const char* kind_in_words(const Lock& lock) noexcept;
/// Returns how the lock is held: "lock", "read", "write", "3 permits".
std::string share_in_words(const holdfast_holder& holder);
/// Returns the token of the holder's grant, or "-" if the holder is about to take the lock and has no token yet.
std::string token_in_words(const holdfast_holder& holder);

enum class Which { all, waited_for };

/// Adds the dictionary's locks whose keys begin with `prefix`, until there are `max` in total. If a part of the
/// dictionary cannot be read, returns an error, and keeps the locks found so far unless the error is `removed`.
Status gather_locks(const std::string& name, const std::string& prefix, Which which, std::size_t max,
                    std::vector<Lock>& locks);
/// Does the same as gather_locks() above for an open dictionary.
Status gather_locks(holdfast_dict* dict, const std::string& name, const std::string& prefix, Which which,
                    std::size_t max, std::vector<Lock>& locks);

/// Reads all locks of a dictionary in steps of a few milliseconds at most.
class LockScan {
 public:
  LockScan(holdfast_dict* dict, std::string name, std::string prefix)
      : dict_(dict), name_(std::move(name)), prefix_(std::move(prefix)) {}
  /// Adds the locks that the next step finds, until there are `max` in total.
  Status next(Which which, std::size_t max, std::vector<Lock>& locks);
  bool done() const noexcept { return done_; }

 private:
  holdfast_dict* dict_;
  std::string name_;
  std::string prefix_;
  std::uint64_t cursor_ = 0;
  bool done_ = false;
};

/// Returns a holder that may be alive, or null if there is none among the holders that were read.
const holdfast_holder* living_holder(const Lock& lock, Processes& processes);
/// Returns why it is unknown whether one of the holders is alive, or an empty string if it is known for all.
std::string trouble_of_holders(const Lock& lock);

/// The waits of processes that want the lock. Watchers do not count, because they only wait for the lock's release.
struct WaitsNow {
  std::uint64_t count = 0;
  double longest = 0;  // the longest wait, in seconds
};
WaitsNow waits_now(const Lock& lock) noexcept;

/// Reads the lock of one key.
Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key);

/// Removes waiters of dead processes, and locks that then have neither holders nor waiters.
void drop_dead_waiters(std::vector<Lock>& locks, Processes& processes);

}  // namespace holdfast::inspect
