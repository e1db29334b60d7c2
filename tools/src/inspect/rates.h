// Computes rates from two snapshots of a world. All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/snapshot.h"

namespace holdfast::inspect {

/// The rates of one dictionary, per second.
struct DictionaryRates {
  const DictionaryLook* look = nullptr;
  std::optional<double> hit_ratio;  // the ratio for the reads in the interval; empty if there were none
  double reads = 0;
  double grants = 0;
  double evictions = 0;
  double waits = 0;
  std::optional<double> loads;        // calls to the loaders of its caches; empty if it has no cache
  std::optional<double> median_wait;  // seconds; empty if no wait ended in the interval
  std::optional<double> p99_wait;
};

/// The rates of one key that is held, that has waiters, or that was refused in the interval.
struct LockRates {
  const Lock* lock = nullptr;  // null if the lock is free at the moment
  std::string user;            // the directory's owner, if the directories of all users are shown together
  std::string dictionary;
  std::string key;          // if the lock is free, only the first HOLDFAST_CONTENDED_KEY_MAX bytes
  double longest_wait = 0;  // the longest present wait, in seconds
  double contention = 0;    // waits and refusals
};

/// The rates of the world over `seconds`. Pointers refer to the later snapshot.
struct Rates {
  double seconds = 0;
  double reads = 0;
  double grants = 0;
  double waits = 0;
  std::vector<DictionaryRates> dictionaries;
  std::vector<LockRates> locks;

  double operations() const noexcept { return reads + grants; }
};

/// Computes the rates. If a dictionary is not in `before`, or was created again, everything that it has counted since
/// its creation is attributed to the interval. A count that decreased has a rate of 0.
Rates rates_of(const Snapshot& before, const Snapshot& now);

}  // namespace holdfast::inspect
