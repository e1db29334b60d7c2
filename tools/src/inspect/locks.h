// Locks with their holders and waiters, for `holdfast locks`. Read without a mutex. Asks only for processes that hold
// or wait.
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
  std::string dictionary;
  std::string key;
  std::string trouble;  // why its holder is unknown; empty if it is known
  /// The holders that have held it longest, at most kHoldersShown. Empty if the key only has waiters.
  std::vector<holdfast_holder> holders;
  std::uint32_t holder_count = 0;
  /// The waiters in queue order, then processes that only watch; at most kWaitersShown.
  std::vector<holdfast_waiter> waiters;
  std::uint32_t waiter_count = 0;

  static constexpr std::uint32_t kHoldersShown = 4096;
  static constexpr std::uint32_t kWaitersShown = 4096;
};

/// Returns "lock", "rwlock" or "semaphore"; "-" if nobody holds it.
const char* kind_in_words(const Lock& lock) noexcept;
/// Returns how it is held: "lock", "read", "write", "3 permits".
std::string share_in_words(const holdfast_holder& holder);
/// Returns its token; "-" while it is about to take the lock and has none yet.
std::string token_in_words(const holdfast_holder& holder);

enum class Which { all, waited_for };

/// Adds the dictionary's locks whose keys begin with `prefix`, until there are `max` in all. If a part of it cannot be
/// read, returns an error and keeps the locks found so far, except after `removed`.
Status gather_locks(const std::string& name, const std::string& prefix, Which which, std::size_t max,
                    std::vector<Lock>& locks);
/// Does the same for an open dictionary.
Status gather_locks(holdfast_dict* dict, const std::string& name, const std::string& prefix, Which which,
                    std::size_t max, std::vector<Lock>& locks);

/// Reads all locks of a dictionary, in parts that take some milliseconds at most.
class LockScan {
 public:
  LockScan(holdfast_dict* dict, std::string name, std::string prefix)
      : dict_(dict), name_(std::move(name)), prefix_(std::move(prefix)) {}
  /// Adds the locks of the next part, until there are `max` in all.
  Status next(Which which, std::size_t max, std::vector<Lock>& locks);
  bool done() const noexcept { return done_; }

 private:
  holdfast_dict* dict_;
  std::string name_;
  std::string prefix_;
  std::uint64_t cursor_ = 0;
  bool done_ = false;
};

/// Returns a holder that may be alive; null if there is none among those that were read.
const holdfast_holder* living_holder(const Lock& lock, Processes& processes);
/// Returns why we do not know of each holder whether it is alive; empty if we do.
std::string trouble_of_holders(const Lock& lock);

/// Reads one key.
Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key);

/// Removes waiters of dead processes, and locks that then have neither holders nor waiters.
void drop_dead_waiters(std::vector<Lock>& locks, Processes& processes);

}  // namespace holdfast::inspect
