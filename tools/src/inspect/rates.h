// What happened between two snapshots of a world: pure functions of the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/snapshot.h"

namespace holdfast::inspect {

/// Of one dictionary; each rate is for one second.
struct DictionaryRates {
  const DictionaryLook* look = nullptr;
  std::optional<double> hit_ratio;  // of the reads of the interval; nothing without one
  double reads = 0;
  double grants = 0;
  double evictions = 0;
  double waits = 0;
  std::optional<double> median_wait;  // seconds; nothing if no wait ended in the interval
  std::optional<double> p99_wait;
};

/// Of one key that is held, waited for, or was asked for in vain in the interval.
struct LockRates {
  const Lock* lock = nullptr;  // null: it is free at the moment
  std::string dictionary;
  std::string key;          // its first HOLDFAST_CONTENDED_KEY_MAX bytes if it is free
  double longest_wait = 0;  // seconds, of those that wait
  double contention = 0;    // waits and refusals
};

/// Of the world, in `seconds`. Points into the later snapshot.
struct Rates {
  double seconds = 0;
  double reads = 0;
  double grants = 0;
  double waits = 0;
  std::vector<DictionaryRates> dictionaries;
  std::vector<LockRates> locks;

  double operations() const noexcept { return reads + grants; }
};

/// A dictionary that `before` has not, or that was made anew, has rates of all that it counts since it was made, as
/// that was in the interval; a count that went back has a rate of 0.
Rates rates_of(const Snapshot& before, const Snapshot& now);

}  // namespace holdfast::inspect
