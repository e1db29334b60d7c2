// Agents that listen in the runtime directory, even if their cluster has no dictionary there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/question.h"

namespace holdfast::cli {

/// Returns the clusters whose agents listen here, sorted; their dictionaries may not exist yet.
std::vector<std::string> listening_agents();

/// Asks the agent of that cluster for its status.
Expected<Answer> ask_listening_agent(const std::string& cluster, double seconds = kAnswerSeconds);
/// Tells the agent of that cluster to accept the store with this id.
Expected<Answer> accept_store(const std::string& cluster, std::uint64_t id);

}  // namespace holdfast::cli
