// A world at one moment, for `holdfast top`: plain values, of which two make rates (inspect/rates.h). Gathered without
// a mutex and without a place in the world.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "holdfast.h"
#include "inspect/locks.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

struct DictionaryLook {
  std::string name;
  std::string trouble;      // why it cannot be looked at; empty if it can
  bool in_cluster = false;  // other machines may hold its locks
  std::uint64_t inode = 0;  // of its file: another one is another dictionary
  std::uint64_t size = 0;
  holdfast_stats counts{};
  std::uint64_t grants = 0;    // of locks, rwlocks and semaphores that were given back; an estimate
  holdfast_histogram waits{};  // of all three
  std::vector<holdfast_contended> contended;
};

struct Snapshot {
  double time = 0;  // of holdfast_now
  std::string directory;
  std::size_t processes = 0;     // that live
  std::uint64_t room_free = 0;   // of the file system, in bytes
  std::uint64_t room_whole = 0;  // 0: not known
  std::vector<DictionaryLook> dictionaries;
  std::vector<Lock> locks;                 // at most kMostLocks
  std::map<std::uint64_t, Process> users;  // those that hold or wait, by token

  static constexpr std::size_t kMostLocks = 10000;

  const Process& user(std::uint64_t token) const;
};

/// Looks at all dictionaries, or at those that are named. One that goes meanwhile is left out; so is one that is named,
/// as it may come again.
Expected<Snapshot> take_snapshot(const std::string& directory, const std::vector<std::string>& names);

}  // namespace holdfast::inspect
