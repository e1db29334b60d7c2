// A snapshot of a world as plain values, for `holdfast top`. inspect/rates.h computes rates from two snapshots. Taking
// a snapshot needs neither a mutex nor a slot in the world.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "holdfast.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/user_directories.h"

namespace holdfast::inspect {

struct DictionaryLook {
  std::string user{};  // the directory's owner, if the directories of all users are shown together
  std::string name;
  std::string trouble;      // why the dictionary cannot be read; empty if it can
  bool in_cluster = false;  // other machines may hold its locks
  std::uint64_t inode = 0;  // its file's inode; a different inode means a different dictionary
  std::uint64_t size = 0;
  holdfast_stats counts{};
  std::int64_t jobs = -1;      // jobs of a queue that no taker has seen yet; negative if it is not a queue
  std::int64_t loads = -1;     // calls to the loaders of its caches; negative if it has no cache
  std::uint64_t grants = 0;    // released locks, rwlocks and semaphores; an estimate
  holdfast_histogram waits{};  // the waits for locks, rwlocks and semaphores together
  std::vector<holdfast_contended> contended;
};

struct Snapshot {
  double time = 0;  // from holdfast_now
  std::string directory;
  std::string hidden{};  // a sentence about directories that only root sees; empty if there are none
  bool is_used = true;   // false: no program has used it yet
  std::vector<DirectoryLook> directories{};  // empty unless the directories of all users are shown together
  std::size_t processes = 0;                 // the number of living processes
  std::uint64_t room_free = 0;               // the free bytes of the file system
  std::uint64_t room_whole = 0;              // the size of the file system in bytes; 0: unknown
  std::vector<DictionaryLook> dictionaries;
  std::vector<Lock> locks;                                         // at most kMostLocks per directory
  std::map<std::pair<std::string, std::uint64_t>, Process> users;  // holders and waiters, indexed by user and token

  static constexpr std::size_t kMostLocks = 10000;

  /// Returns a text for each directory that could not be read: "www-data: runtime directory ... has mode 0777".
  std::vector<std::string> troubles() const;
  /// Returns whether a directory or a dictionary could not be read.
  bool is_in_trouble() const;
  /// Returns the process with this token, which holds or waits for the lock.
  const Process& user(const Lock& lock, std::uint64_t token) const;
};

/// Observes the world, and reads the named dictionaries, or all if there are no names. Omits dictionaries that are
/// removed in the meantime, even if they are named, because they may be created again.
Expected<Snapshot> take_snapshot(const std::string& directory, const std::vector<std::string>& names);

}  // namespace holdfast::inspect
