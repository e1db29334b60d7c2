// Reads the counts that caches and queues keep in their dictionaries, like lua/resty/holdfast/cache/counts.lua and
// queue/counts.lua.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast.h"

namespace holdfast::inspect {

struct Queue {
  std::uint64_t waiting = 0;  // jobs that no taker has seen yet
  double oldest = 0;          // the age of the oldest of these jobs, in seconds
  /// This is false if there are too many jobs to compute the next four counts.
  bool is_counted = false;
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;
  std::uint64_t taken = 0;
  std::uint64_t dead = 0;
};

/// If a queue has more claims, its jobs are not counted by state, because this would take longer than 10 ms.
inline constexpr std::uint64_t kClaimsRead = 10000;

/// Returns the queue whose jobs are in this dictionary, or nothing if the dictionary has none. Reads at most `most`
/// claims.
std::optional<Queue> queue_in(const std::string& name, holdfast_dict* jobs, std::uint64_t most = kClaimsRead);

/// Returns the names and values of the counts of all caches in the dictionary, such as "l1_hits" and "loads". Omits
/// counts that are 0.
std::vector<std::pair<const char*, std::uint64_t>> cache_counts_in(holdfast_dict* dict);

}  // namespace holdfast::inspect
