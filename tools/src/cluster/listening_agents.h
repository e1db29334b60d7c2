// Finds the agents that listen in the runtime directory, and asks them. An agent is found even if its cluster has no
// dictionary there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/question.h"

namespace holdfast::cli {

/// Returns the sorted names of the clusters whose agents listen here. A cluster's dictionaries may not exist yet.
std::vector<std::string> listening_agents();

/// Asks the cluster's agent for its status.
Expected<Answer> ask_listening_agent(const std::string& cluster, double seconds = kAnswerSeconds);
/// Makes the cluster's agent accept the store with this id.
Expected<Answer> accept_store(const std::string& cluster, std::uint64_t id);

}  // namespace holdfast::cli
