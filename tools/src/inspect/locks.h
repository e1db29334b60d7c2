// What is held and waited for in a world: what `holdfast locks` shows. Gathered without a mutex, and without asking for
// a process that does not hold or wait.
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
  std::string trouble;  // why it cannot be told what holds it; empty if it can
  /// Those that have held it longest, at most kHoldersShown; without one the key is only waited for.
  std::vector<holdfast_holder> holders;
  std::uint32_t holder_count = 0;
  /// In the order of their queue, then those that watch; at most kWaitersShown.
  std::vector<holdfast_waiter> waiters;
  std::uint32_t waiter_count = 0;

  static constexpr std::uint32_t kHoldersShown = 4096;
  static constexpr std::uint32_t kWaitersShown = 4096;
};

/// "lock", "rwlock", "semaphore"; "-" if nothing holds it.
const char* kind_in_words(const Lock& lock) noexcept;
/// How it is held: "lock", "read", "write", "3 permits".
std::string share_in_words(const holdfast_holder& holder);
/// Its token; "-" while it is about to take the lock and has none yet.
std::string token_in_words(const holdfast_holder& holder);

enum class Which { all, waited_for };

/// Adds the dictionary's locks of which the keys begin with `prefix`, at most `max` in all; stops then. A status where
/// a part of it cannot be looked at: what was found is there; `removed`: nothing of it is.
Status gather_locks(const std::string& name, const std::string& prefix, Which which, std::size_t max,
                    std::vector<Lock>& locks);
/// The same, of a dictionary that is open.
Status gather_locks(holdfast_dict* dict, const std::string& name, const std::string& prefix, Which which,
                    std::size_t max, std::vector<Lock>& locks);

/// A look at all locks of a dictionary, in parts that take some milliseconds at most.
class LockScan {
 public:
  LockScan(holdfast_dict* dict, std::string name, std::string prefix)
      : dict_(dict), name_(std::move(name)), prefix_(std::move(prefix)) {}
  /// Adds those of the next part, until there are `max` in all.
  Status next(Which which, std::size_t max, std::vector<Lock>& locks);
  bool done() const noexcept { return done_; }

 private:
  holdfast_dict* dict_;
  std::string name_;
  std::string prefix_;
  std::uint64_t cursor_ = 0;
  bool done_ = false;
};

/// A holder that may live, of those that are there to see; null if there is none.
const holdfast_holder* living_holder(const Lock& lock, Processes& processes);
/// Why it cannot be told of each holder whether it lives; empty if it can.
std::string trouble_of_holders(const Lock& lock);

/// Looks at one key.
Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key);

/// Forgets waiters of dead processes, and locks that then nobody holds or waits for.
void drop_dead_waiters(std::vector<Lock>& locks, Processes& processes);

}  // namespace holdfast::inspect
