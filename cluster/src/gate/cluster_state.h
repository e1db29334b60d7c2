// Reports the cluster of a dictionary, and whether its locks are available now.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "dict/dictionary.h"

namespace holdfast {

struct ClusterState {
  std::string name;
  std::uint32_t agent = 0;    // the agent's process id, in the agent's pid namespace; 0: no agent
  std::uint16_t epoch = 0;    // the session's epoch
  double seconds = 0;         // the time until the session ends; 0: the session is lost
  std::uint64_t machine = 0;  // the id of the machine's lease; 0: none yet
};

/// If there is no agent or the session is lost, returns unavailable, with `state` filled in. Returns not_found if the
/// dictionary belongs to no cluster, or removed.
Status find_cluster_state(Dictionary& dictionary, ClusterState& state);

}  // namespace holdfast
